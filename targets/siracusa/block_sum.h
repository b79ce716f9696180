/* Blocks of a long sum (sum_f32.h) as text for inline assembly: around the loop over a block's elements goes one over blocks,
 * which adds each to its group. */
#ifndef BLOCK_SUM_H
#define BLOCK_SUM_H

#include "hal.h"
#include "pulp.h"
#include "sum_f32.h"

#define BLOCK_SHIFT 5 /* of SUM_BLOCK */

/* 2 instructions: the block goes to its group, then is zero. */
#define ADD_BLOCK(group, block) "fadd.s " group ", " group ", " block "\n fmv.w.x " block ", zero\n"

/* How many whole blocks of one group begin at this position and are among the `left` elements from there on; none inside of
 * a block. Their sums may go to the group at once: an open block that is 0 changes nothing. */
static inline uint32_t whole_blocks(uint32_t size, uint32_t position, uint32_t left) {
    if (!size || (position & (SUM_BLOCK - 1))) return 0;
    return hal_min(left >> BLOCK_SHIFT, SUM_GROUP - ((position >> BLOCK_SHIFT) & (SUM_GROUP - 1)));
}

/* A row that is all of a long sum: groups are added to high + low, as sum_close does. */
typedef struct {
    float high, low;
} total_t;

static inline void total_add(total_t *total, float group) {
    const float high = total->high + group, part = high - total->high;
    total->low += (total->high - (high - part)) + (group - part);
    total->high = high;
}

static inline float total_value(const total_t *total) {
    const float value = total->high + total->low;
    return total->low == total->low ? value : total->high;
}

#endif
