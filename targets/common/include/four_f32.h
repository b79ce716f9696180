/* Four sums side by side, each of which adds a product of one number that all share: kernels for processor cores read
 * that number, and find where it lies, once for four outputs. Each sum has the order it would have alone. */
#ifndef FOUR_F32_H
#define FOUR_F32_H

#include <stdint.h>

#include "hal.h" /* which may have another fmaf */
#include "products_f32.h"

#define FOUR 4u

typedef struct {
    float a, b, c, d;
} four_t;

static inline four_t four_zero(void) { return (four_t){0.0f, 0.0f, 0.0f, 0.0f}; }

/* Those that lie `stride` elements apart. */
static inline four_t four_load(const float *y, uint32_t stride) {
    return (four_t){y[0], y[stride], y[2 * stride], y[3 * stride]};
}

static inline void four_store(float *y, uint32_t stride, four_t sums) {
    y[0] = sums.a;
    y[stride] = sums.b;
    y[2 * stride] = sums.c;
    y[3 * stride] = sums.d;
}

/* With x times each of four factors that lie `stride` elements apart. */
static inline four_t four_fma(float x, const float *y, uint32_t stride, four_t sums) {
    sums.a = __builtin_fmaf(x, y[0], sums.a);
    sums.b = __builtin_fmaf(x, y[stride], sums.b);
    sums.c = __builtin_fmaf(x, y[2 * stride], sums.c);
    sums.d = __builtin_fmaf(x, y[3 * stride], sums.d);
    return sums;
}

/* The totals with a block more each. */
static inline four_t four_add(four_t totals, four_t blocks, uint32_t first) {
    totals.a = products_add(totals.a, blocks.a, first);
    totals.b = products_add(totals.b, blocks.b, first);
    totals.c = products_add(totals.c, blocks.c, first);
    totals.d = products_add(totals.d, blocks.d, first);
    return totals;
}

#endif
