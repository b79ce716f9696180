/* Encodes the texts of its input, each behind its size, writes the ids behind their number, and compares their bytes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "word_tokenizer.h"

static int fail(const char *why) {
    fprintf(stderr, "%s\n", why);
    return 1;
}

static int same_bytes(const int32_t *ids, int32_t count, const uint8_t *text, uint32_t size) {
    uint32_t at = 0;
    for (int32_t i = 0; i < count; i++) {
        const uint8_t *bytes = 0;
        const int32_t length = word_decode(ids[i], &bytes);
        if (length <= 0 || (uint32_t)length > WORD_TOKEN || (uint32_t)length > size - at) return 0;
        if (memcmp(bytes, &text[at], (size_t)length) != 0) return 0;
        at += (uint32_t)length;
    }
    return at == size;
}

int main(void) {
    const uint8_t *bytes = 0;
    int32_t none = 0;
    uint32_t size;
    if (word_decode(WORD_END, &bytes) != 0) return fail("the end has bytes");
    if (word_decode(-1, &bytes) != WORD_ERROR_ID || word_decode(WORD_VOCAB, &bytes) != WORD_ERROR_ID)
        return fail("an id outside the vocabulary is decoded");
    if (word_decode(0, 0) != WORD_ERROR_POINTER || word_encode(0, 1, &none, 1) != WORD_ERROR_POINTER ||
        word_encode((const uint8_t *)"a", 1, 0, 1) != WORD_ERROR_POINTER)
        return fail("a null pointer is taken");
    while (fread(&size, sizeof size, 1, stdin) == 1) {
        uint8_t *text = malloc(size ? size : 1u); /* as large as the text, so that the sanitizer sees a byte more read */
        int32_t *ids = malloc((size ? size : 1u) * sizeof *ids);
        if (!text || !ids || fread(text, 1, size, stdin) != size) return fail("the input is cut");
        const int32_t count = word_encode(text, size, ids, size);
        if (count < 0 || !same_bytes(ids, count, text, size)) return fail("decoded bytes differ from the text");
        if (count > 0 && word_encode(text, size, ids, (size_t)count - 1u) != WORD_ERROR_ROOM)
            return fail("ids have been written beyond the room");
        if (word_encode(text, size, ids, size) != count) return fail("the second time is another");
        if (fwrite(&count, sizeof count, 1, stdout) != 1) return fail("no output");
        if (fwrite(ids, sizeof *ids, (size_t)count, stdout) != (size_t)count) return fail("no output");
        free(text);
        free(ids);
    }
    return 0;
}
