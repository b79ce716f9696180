/* Goes on with a text. Prints it, and in the last line the ids of the tokens that were drawn. */
#include "${v.name}_language.h"
#include "${v.name}_sampler.h"
% for _ in v.tokenizer:
#include "${v.name}_text_tokenizer.h"
% endfor

#include <stdio.h>

#define TOKENS ${v.tokens}u
#define TEMPERATURE 0.0f /* the most probable token; 1 draws by probability */
#define TOP_K 0u         /* all */
#define TOP_P 1.0f       /* all */
#define SEED 0u

static ${v.name}_language_t language; /* large: not for the stack */
static int32_t ids[${v.upper}_CONTEXT];
% for _ in v.tokenizer:

static const uint8_t prompt[] = {
% for line in v.prompt:
    ${line}
% endfor
};
% endfor
% for _ in v.tokenless:

static const int32_t prompt[] = {
% for line in v.prompt:
    ${line}
% endfor
};
% endfor

static int failed(${v.name}_status_t status) {
    if (status != ${v.upper}_OK) printf("error: %s\n", ${v.name}_status_text(status));
    return status != ${v.upper}_OK;
}

/* The prompt as ids, behind the end of a document; their number, or one below 0. */
static int32_t read_prompt(void) {
% for _ in v.tokenizer:
    ids[0] = ${v.end};
    const int32_t count = ${v.name}_text_encode(prompt, ${v.prompt_count}u, ids + 1, ${v.upper}_CONTEXT - 1u);
    return count < 0 ? count : count + 1;
% endfor
% for _ in v.tokenless:
    for (uint32_t i = 0; i < ${v.prompt_count}u; i++) ids[i] = prompt[i];
    return ${v.prompt_count};
% endfor
}

static void print_token(int32_t id) {
% for _ in v.tokenizer:
    const uint8_t *bytes;
    const int32_t count = ${v.name}_text_decode(id, &bytes);
    for (int32_t i = 0; i < count; i++) putchar(bytes[i]);
% endfor
% for _ in v.tokenless:
    (void)id;
% endfor
}

int main(void) {
    const int32_t count = read_prompt();
    if (count <= 0) return 1;
    uint32_t length = (uint32_t)count, drawn = 0;
    if (failed(${v.name}_language_init(&language))) return 1;
    if (failed(${v.name}_prefill(&language, 0, ids, length))) return 1;
    while (drawn < TOKENS && length < ${v.upper}_CONTEXT) {
        const float *scores = ${v.name}_scores(&language, 0);
        const int32_t id = ${v.name}_sample(scores, ${v.upper}_VOCABULARY, TEMPERATURE, TOP_K, TOP_P, SEED, 0, length);
        if (id < 0 || id == ${v.end}) break;
        ids[length] = id;
        print_token(id);
        if (failed(${v.name}_prefill(&language, 0, ids + length, 1))) return 1;
        length++, drawn++;
    }
    printf("\nids");
    for (uint32_t i = length - drawn; i < length; i++) printf(" %ld", (long)ids[i]);
    printf("\n");
    return 0;
}
