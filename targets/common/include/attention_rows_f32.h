/* Rows of attention: products of a row with matrices, the shares of a score, and cores with rows of their own.
 *
 * A causal row leaves out what is behind its own key: such terms are zeros, and change no sum but for one of -0, which only
 * underflow makes. Where a result is -0, its row is computed again with all terms. A target with loops of its own for products says HAL_ROWS in its
 * hal_target.h, and has them in an attention_loops.h. */
#ifndef ATTENTION_ROWS_F32_H
#define ATTENTION_ROWS_F32_H

#include "masked_row_f32.h"
#include "product_columns_f32.h"
#include "quotient_f32.h"

#ifdef HAL_ROWS
#include "attention_loops.h"
#else

/* y[j] = the sum of a[i] b[i, j] over `count` i, for j below n. */
static inline void product_row(float *y, uint32_t n, const float *a, const float *b, uint32_t b_k, uint32_t b_n,
                               uint32_t count) {
    const columns_t columns = {count, 1, b_k, b_n, 1, 0};
    uint32_t j = 0;
    for (; j + FOUR <= n; j += FOUR) column_sums(&columns, a, b + j * b_n, y + j);
    for (; j < n; j++) column_sum(&columns, a, b + j * b_n, y + j);
}

/* The sums with the products of `count` a[i] and four b[i, j] more. */
static inline four_t add_products(four_t sums, const float *a, const float *b, uint32_t b_k, uint32_t count) {
    for (uint32_t i = 0; i < count; i++, b += b_k) sums = four_fma(a[i], b, 1, sums);
    return sums;
}

/* x = e^x of elements that are at most 0. */
static inline void powers_row(float *x, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) x[i] = expf_f32(x[i]);
}

#endif

static inline uint32_t has_negative_zero(const float *y, uint32_t count) {
    for (uint32_t j = 0; j < count; j++)
        if (y[j] == 0.0f && __builtin_signbit(y[j])) return 1;
    return 0;
}

/* A scaled and masked score, less the largest of its row. */
static inline float below_largest(float product, float alpha, const float *mask, const float *stats) {
    const float scaled = product * alpha, score = mask ? scaled + *mask : scaled;
    return score - stats[0];
}

/* The share of that score's power in the sum of its row, which is 0 of one that is hidden. */
static inline float share_of_power(float power, const float *stats) {
    return stats[1] == 0.0f ? 0.0f : QUOTIENT_F32(power, stats[1]);
}

/* Cores that work: each has a row. */
static inline uint32_t working_cores(uint32_t workers) {
    return hal_min(hal_core_count(), workers);
}

/* Rows are left as zeros, whatever computed in them. */
static inline void clear_rows(float *rows, uint32_t length, uint32_t workers) {
    const uint32_t cores = working_cores(workers);
    for (uint32_t row = hal_core_id(); row < workers; row += cores) fill_line_f32(rows + row * length, 0.0f, length);
}

#endif
