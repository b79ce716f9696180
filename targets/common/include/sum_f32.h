/* Long sums, in the order that operators declare. A row, the innermost loop of the sum, is cut into blocks of neighbours, each
 * summed ascending from zero; SUM_GROUP blocks, or what a row has left of them, make a group, whose blocks are added in order;
 * groups are added in order to a total of two floats, high + low, that loses nothing until the end (the error of each
 * addition, by Knuth's TwoSum, goes to low). A sum that is one block is summed ascending. A tile may begin and end anywhere:
 * between tiles high (or the only block) waits in the output, and low, the open group and the open block in carry. */
#ifndef SUM_F32_H
#define SUM_F32_H

#include <stdint.h>

#define SUM_BLOCK 32u  /* elements */
#define SUM_GROUP 16u  /* blocks */
#define GROUP_LENGTH (SUM_GROUP * SUM_BLOCK)
#define SUM_CARRIED 3u /* floats that wait in carry per sum */

typedef struct {
    float high, low, group, block;
    uint32_t begun; /* whether the total may have a group */
} sum_t;

/* The elements of a block, or 0 where the sum is one block and carries nothing. */
static inline uint32_t sum_size(const float *carry) {
    return carry ? SUM_BLOCK : 0;
}

/* Where the floats of a sum lie, if any are carried. */
static inline float *sum_carry(float *carry, uint32_t sum) {
    return carry ? carry + SUM_CARRIED * sum : 0;
}

/* What a tile begins with. */
static inline sum_t sum_begin(uint32_t first, uint32_t size, float waiting, const float *carry) {
    if (first) return (sum_t){0.0f, 0.0f, 0.0f, 0.0f, 0};
    if (!size) return (sum_t){0.0f, 0.0f, 0.0f, waiting, 0};
    return (sum_t){waiting, carry[0], carry[1], carry[2], 1};
}

/* The open block and the open group are complete. */
static inline void sum_close(sum_t *sum) {
    const float group = sum->group + sum->block;
    if (sum->begun) {
        const float high = sum->high + group, part = high - sum->high;
        sum->low += (sum->high - (high - part)) + (group - part);
        sum->high = high;
    } else {
        sum->high = group;
        sum->begun = 1;
    }
    sum->group = sum->block = 0.0f;
}

/* A row that is not the sum's first begins: what is open is complete. */
static inline void sum_row(sum_t *sum, uint32_t size, uint32_t position) {
    if (size && position == 0) sum_close(sum);
}

/* How many of the `left` elements from this position in the row on belong to its block; one that begins inside of the row
 * closes the one before. */
static inline uint32_t sum_next(sum_t *sum, uint32_t size, uint32_t position, uint32_t left) {
    if (!size) return left;
    const uint32_t room = size - (position & (size - 1));
    if (room == size && position > 0) {
        if (position & (SUM_GROUP * size - 1))
            sum->group += sum->block, sum->block = 0.0f;
        else
            sum_close(sum);
    }
    return left < room ? left : room;
}

/* The sum. Where the total is infinite low is not a number, and says nothing. */
static inline float sum_value(sum_t *sum, uint32_t size) {
    if (!size) return sum->block;
    sum_close(sum);
    const float value = sum->high + sum->low;
    return sum->low == sum->low ? value : sum->high;
}

/* Leave what the next tile begins with; the result waits in the output. A block that is complete where the tile ends in its
 * row is in the group, whenever it went there. */
static inline float sum_wait(const sum_t *sum, uint32_t size, uint32_t end, float *carry) {
    if (!size) return sum->block;
    const uint32_t open = end & (size - 1);
    carry[0] = sum->low, carry[1] = open ? sum->group : sum->group + sum->block, carry[2] = open ? sum->block : 0.0f;
    return sum->high;
}

/* After the last tile nothing is carried. */
static inline void sum_end(uint32_t size, float *carry) {
    if (size) carry[0] = carry[1] = carry[2] = 0.0f;
}

/* To the output goes the sum after the last tile, else what waits. */
static inline void sum_leave(float *output, sum_t *sum, uint32_t last, uint32_t size, uint32_t end, float *carry) {
    if (last) {
        *output = sum_value(sum, size);
        sum_end(size, carry);
    } else
        *output = sum_wait(sum, size, end, carry);
}

#endif
