/* Blocks of a long sum (sum_f32.h) as text for inline assembly: around the loop over a block's elements goes one over blocks,
 * which adds each to the total. */
#ifndef BLOCK_SUM_H
#define BLOCK_SUM_H

#include "pulp.h"
#include "sum_f32.h"

/* The elements of a block for which this is written; sums with others go one block at a time. */
#define BLOCK_ELEMENTS 64u
#define BLOCK_SHIFT 6

/* 2 instructions: the block goes to its group, then is zero. */
#define ADD_BLOCK(group, block) "fadd.s " group ", " group ", " block "\n fmv.w.x " block ", zero\n"

/* Whether a row of so many elements is several blocks of one group: then the sum is that of the group. */
static inline int is_one_group(uint32_t size, uint32_t elements) {
    return size == BLOCK_ELEMENTS && elements <= SUM_GROUP * BLOCK_ELEMENTS;
}

#endif
