/* Totals of columns of a product of matrices with strides, in the order of products_f32.h: one column, or four at a time
 * that share what is read of A. The raw total of a sum that goes on waits in Y. */
#ifndef PRODUCT_COLUMNS_F32_H
#define PRODUCT_COLUMNS_F32_H

#include "four_f32.h"
#include "hal.h"
#include "products_f32.h"

typedef struct {
    uint32_t k, a_k, b_k, b_n, first, single;
} columns_t;

/* The total of one column of a row. */
static inline void column_sum(const columns_t *p, const float *a, const float *b, float *y) {
    uint32_t first = p->first;
    float sum = first ? 0.0f : *y;
    for (uint32_t left = p->k; left > 0;) {
        uint32_t count = hal_min(left, PRODUCTS_BLOCK);
        float block = p->single ? sum : 0.0f;
        left -= count;
        for (; count > 0; count--, a += p->a_k, b += p->b_k) block = __builtin_fmaf(*a, *b, block);
        sum = products_add(sum, block, first | p->single);
        first = 0;
    }
    *y = sum;
}

/* The totals of four columns of a row. */
static inline void column_sums(const columns_t *p, const float *a, const float *b, float *y) {
    const uint32_t a_k = p->a_k, b_k = p->b_k, b_n = p->b_n;
    uint32_t first = p->first;
    four_t sums = first ? four_zero() : four_load(y, 1);
    for (uint32_t left = p->k; left > 0;) {
        uint32_t count = hal_min(left, PRODUCTS_BLOCK);
        four_t blocks = p->single ? sums : four_zero();
        left -= count;
        for (; count > 0; count--, a += a_k, b += b_k) blocks = four_fma(*a, b, b_n, blocks);
        sums = four_add(sums, blocks, first | p->single);
        first = 0;
    }
    four_store(y, 1, sums);
}

#endif
