/* Products of a row with a matrix in the cluster's hardware loops; attention_rows_f32.h says what they do. */
#ifndef ATTENTION_LOOPS_H
#define ATTENTION_LOOPS_H

#include "line_sums.h"
#include "row_powers.h"

static inline void product_row(float *y, uint32_t n, const float *a, const float *b, uint32_t b_k, uint32_t b_n,
                               uint32_t count) {
    const steps_t step = {4, 4 * b_k, 4 * b_n};
    for (uint32_t j = 0; j < n; j += 4) {
        const uint32_t width = hal_min(n - j, 4);
        float sums[4] = {0};
        add_4(&step, hal_min(count, PRODUCTS_BLOCK), a, b + j * b_n, sums, width);
        for (uint32_t done = PRODUCTS_BLOCK; done < count; done += PRODUCTS_BLOCK) {
            float block[4] = {0};
            add_4(&step, hal_min(count - done, PRODUCTS_BLOCK), a + done, b + j * b_n + done * b_k, block, width);
            sums[0] += block[0], sums[1] += block[1], sums[2] += block[2], sums[3] += block[3];
        }
        y[j] = sums[0];
        if (width > 1) y[j + 1] = sums[1];
        if (width > 2) y[j + 2] = sums[2];
        if (width > 3) y[j + 3] = sums[3];
    }
}

static inline four_t add_products(four_t sums, const float *a, const float *b, uint32_t b_k, uint32_t count) {
    const steps_t step = {4, 4 * b_k, 4};
    float s[4] = {sums.a, sums.b, sums.c, sums.d};
    add_4(&step, count, a, b, s, 4);
    return (four_t){s[0], s[1], s[2], s[3]};
}

static inline void powers_row(float *x, uint32_t count) {
    powers_of(x, 1, x, 1, count, 0.0f);
}

#endif
