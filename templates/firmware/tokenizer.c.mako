/* ${v.provenance} */
#include "${v.name}_tokenizer.h"

#define NO_MERGE UINT32_MAX

/* The bytes of all tokens in turn, and where those of each id begin. */
static const uint8_t token_bytes[] = {
% for line in v.token_bytes.lines:
    ${line}
% endfor
};
static const ${v.token_starts.type} token_starts[] = {
% for line in v.token_starts.lines:
    ${line}
% endfor
};

/* The id of each byte. */
static const ${v.byte_ids.type} byte_ids[] = {
% for line in v.byte_ids.lines:
    ${line}
% endfor
};

/* Merges, sorted by their left and then by their right id: where those of each left id begin, then right ids and ranks. */
static const ${v.merge_starts.type} merge_starts[] = {
% for line in v.merge_starts.lines:
    ${line}
% endfor
};
static const ${v.merge_rights.type} merge_rights[] = {
% for line in v.merge_rights.lines:
    ${line}
% endfor
};
static const ${v.merge_ranks.type} merge_ranks[] = {
% for line in v.merge_ranks.lines:
    ${line}
% endfor
};
% for result in v.result_tables:

/* The id that the merge of each rank makes. */
static const ${result.type} merge_results[] = {
% for line in result.lines:
    ${line}
% endfor
};
% endfor

typedef enum { SPACE, LETTER, DIGIT, OTHER } byte_class_t;

static int is_between(uint8_t byte, uint8_t first, uint8_t last) { return byte >= first && byte <= last; }

static int is_letter(uint8_t byte) {
    return byte >= 0x80u || is_between((uint8_t)(byte | 0x20u), 0x61u, 0x7Au); /* with that bit capitals are small */
}

static byte_class_t class_of(uint8_t byte) {
    if (byte == 0x20u || is_between(byte, 0x09u, 0x0Du)) return SPACE;
    if (is_letter(byte)) return LETTER;
    return is_between(byte, 0x30u, 0x39u) ? DIGIT : OTHER;
}

/* The bytes of the first word: a run of one class, with a blank before it; of a run of spaces the blank before the next word
 * is that one's. */
static size_t word_size(const uint8_t *text, size_t count) {
    size_t size = count > 1u && text[0] == 0x20u && class_of(text[1]) != SPACE ? 2u : 1u;
    const byte_class_t kind = class_of(text[size - 1u]);
    while (size < count && class_of(text[size]) == kind) size++;
    if (kind == SPACE && size > 1u && size < count && text[size - 1u] == 0x20u) size--;
    return size;
}

/* The rank of the merge of two ids, or NO_MERGE. */
static uint32_t rank_of(int32_t left, int32_t right) {
    uint32_t low = merge_starts[left], high = merge_starts[left + 1];
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2u;
        if ((int32_t)merge_rights[middle] == right) return merge_ranks[middle];
        if ((int32_t)merge_rights[middle] < right)
            low = middle + 1u;
        else
            high = middle;
    }
    return NO_MERGE;
}

/* Merges the ids of a word, the lowest rank first and the leftmost of equals; returns how many are left. */
static size_t merged(int32_t *ids, size_t count) {
    for (;;) {
        uint32_t best = NO_MERGE;
        size_t at = 0;
        for (size_t i = 0; i + 1u < count; i++) {
            const uint32_t rank = rank_of(ids[i], ids[i + 1u]);
            if (rank < best) {
                best = rank;
                at = i;
            }
        }
        if (best == NO_MERGE) return count;
        ids[at] = (int32_t)(${v.result});
        count--;
        for (size_t i = at + 1u; i < count; i++) ids[i] = ids[i + 1u];
    }
}

int32_t ${v.name}_encode(const uint8_t *text, size_t count, int32_t *ids, size_t room) {
    if ((!text && count > 0u) || (!ids && room > 0u)) return ${v.upper}_ERROR_POINTER;
    size_t done = 0;
    for (size_t at = 0; at < count;) {
        const size_t size = word_size(&text[at], count - at);
        if (size > room - done || size > (size_t)INT32_MAX - done) return ${v.upper}_ERROR_ROOM;
        for (size_t i = 0; i < size; i++) ids[done + i] = (int32_t)byte_ids[text[at + i]];
        done += merged(&ids[done], size);
        at += size;
    }
    return (int32_t)done;
}

int32_t ${v.name}_decode(int32_t id, const uint8_t **bytes) {
    if (!bytes) return ${v.upper}_ERROR_POINTER;
    if (id < 0 || id >= ${v.upper}_VOCAB) return ${v.upper}_ERROR_ID;
    *bytes = &token_bytes[token_starts[id]];
    return (int32_t)(token_starts[id + 1] - token_starts[id]);
}
