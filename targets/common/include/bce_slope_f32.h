/* The slope of binary cross entropy: (pred - target) / (pred (1 - pred)), where the divisor is at least least. */
#ifndef BCE_SLOPE_F32_H
#define BCE_SLOPE_F32_H

#include "quotient_f32.h"

static inline float bce_slope(float pred, float target, float least) {
    const float product = (1.0f - pred) * pred;
    return QUOTIENT_F32(pred - target, product < least ? least : product);
}

#endif
