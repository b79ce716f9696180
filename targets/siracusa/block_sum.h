/* Blocks of a long sum (sum_f32.h) as text for inline assembly: around the loop over a block's elements goes one over blocks,
 * which adds each to the total. */
#ifndef BLOCK_SUM_H
#define BLOCK_SUM_H

#include "pulp.h"
#include "sum_f32.h"

#define BLOCK_SHIFT 6 /* of SUM_BLOCK */

/* 2 instructions: the block goes to its group, then is zero. */
#define ADD_BLOCK(group, block) "fadd.s " group ", " group ", " block "\n fmv.w.x " block ", zero\n"

/* Whether a row of so many elements is several blocks of one group: then the sum is that of the group. */
static inline int is_one_group(uint32_t elements) {
    return elements <= SUM_GROUP * SUM_BLOCK;
}

#endif
