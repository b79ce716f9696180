/* Sums of products, in the order that operators declare: blocks, each ascending by fmaf from zero, are added in order
 * to the total, which the first of them is. Where a block ends follows from indices, and so from shapes: products that
 * padding leaves out count. A tile ends where a block does; between tiles the total waits in the output. Where the sum
 * is a single block a tile ends anywhere, and what waits is the block, which goes on. */
#ifndef PRODUCTS_F32_H
#define PRODUCTS_F32_H

#include <stdint.h>

#define PRODUCTS_BLOCK 144u /* products; so many elements where each stands for one */

/* How many of `size` elements make a block, where each stands for so many products: at least one. */
static inline uint32_t products_block(uint32_t size, uint32_t each) {
    if (size * each <= PRODUCTS_BLOCK) return size;
    return each < PRODUCTS_BLOCK ? PRODUCTS_BLOCK / each : 1;
}

/* The most taps of an axis that meet one element, where each step-th can. */
static inline uint32_t taps_met(uint32_t taps, uint32_t step) {
    return step == 1 ? taps : (taps + step - 1) / step;
}

/* The total with a block more. */
static inline float products_add(float total, float block, uint32_t first) {
    return first ? block : total + block;
}

#endif
