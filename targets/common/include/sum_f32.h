/* Long sums, in the order that operators declare: blocks of so many neighbours, each summed ascending from zero, are added to
 * a total of two floats, high + low, which loses nothing until the end (the error of each addition, by Knuth's TwoSum, goes
 * to low). A sum that is one block is summed ascending. A row, the innermost loop of the sum, begins a block; a tile may
 * begin and end inside of one. Between tiles high (or the only block) waits in the output, low and the open block in carry. */
#ifndef SUM_F32_H
#define SUM_F32_H

#include <stdint.h>

typedef struct {
    float high, low, block;
    uint32_t begun; /* whether the total may have a block */
} sum_t;

/* What a tile begins with; `size` is the elements of a block, 0 where the sum is one block. */
static inline sum_t sum_begin(uint32_t first, uint32_t size, float waiting, const float *carry) {
    if (first) return (sum_t){0.0f, 0.0f, 0.0f, 0};
    if (!size) return (sum_t){0.0f, 0.0f, waiting, 0};
    return (sum_t){waiting, carry[0], carry[1], 1};
}

/* Add the open block to the total, which is zero where it has not begun. */
static inline void sum_close(sum_t *sum) {
    if (sum->begun) {
        const float high = sum->high + sum->block, part = high - sum->high;
        sum->low += (sum->high - (high - part)) + (sum->block - part);
        sum->high = high;
    } else {
        sum->high = sum->block;
        sum->begun = 1;
    }
    sum->block = 0.0f;
}

/* A row that is not the sum's first begins: the block before it is complete. */
static inline void sum_row(sum_t *sum, uint32_t size, uint32_t position) {
    if (size && position == 0) sum_close(sum);
}

/* How many of the `left` elements from this position in the row on belong to its block, a power of two; one that begins inside
 * of the row closes the one before. */
static inline uint32_t sum_next(sum_t *sum, uint32_t size, uint32_t position, uint32_t left) {
    if (!size) return left;
    const uint32_t inside = position & (size - 1), room = size - inside;
    if (inside == 0 && position > 0) sum_close(sum);
    return left < room ? left : room;
}

/* The sum. Where the total is infinite low is not a number, and says nothing. */
static inline float sum_value(sum_t *sum, uint32_t size) {
    if (!size) return sum->block;
    sum_close(sum);
    const float value = sum->high + sum->low;
    return sum->low == sum->low ? value : sum->high;
}

/* Leave what the next tile begins with; the result waits in the output. */
static inline float sum_wait(const sum_t *sum, uint32_t size, float *carry) {
    if (!size) return sum->block;
    carry[0] = sum->low;
    carry[1] = sum->block;
    return sum->high;
}

/* After the last tile nothing is carried. */
static inline void sum_end(uint32_t size, float *carry) {
    if (size) carry[0] = carry[1] = 0.0f;
}

#endif
