/* Pieces of softmax cross entropy over rows that fit a tile. One function makes the powers of both exponentials, of x - max for
 * their sum and of log_prob for dx, so that little code is fetched. */
#ifndef SOFTMAX_CE_ROW_H
#define SOFTMAX_CE_ROW_H

#include "flat.h"
#include "labels_f32.h"
#include "row_powers.h"

#define NOINLINE static __attribute__((noinline))

/* The powers e^(x - max - log_sum), and their sum in one block. */
NOINLINE float powers(float *y, uint32_t y_step, const float *x, uint32_t step, uint32_t count, float max, float log_sum) {
    const float *at = x;
    float *to = y, sum = 0.0f;
    uint32_t least = NO_POWER;
    ADD_POWERS("fsub.s ft0, ft0, %[log_sum]\n", 1, sum, to, y_step, at, step, count, max, log_sum, least);
    return sum;
}

/* The sum of several blocks, apart, so that short rows do not fetch it. */
NOINLINE float long_sum(float *y, uint32_t y_step, const float *x, uint32_t step, uint32_t count, float max) {
    return powers_of(y, y_step, x, step, count, max).sum;
}

/* dx = dx / divisor * scale. */
NOINLINE void epilogue(float *dx, uint32_t step, uint32_t count, float divisor, float scale) {
    float inverse;
    const int multiplies = inverse_of_power(divisor, &inverse);
    for (; count > 0; count--, dx += step) *dx = (multiplies ? *dx * inverse : *dx / divisor) * scale;
}

NOINLINE void clear(float *dx, uint32_t step, uint32_t count) {
    for (; count > 0; count--, dx += step) *dx = 0.0f;
}

#endif
