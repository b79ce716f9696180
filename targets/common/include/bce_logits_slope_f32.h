/* The slope of binary cross entropy of scores: 1 / (1 + exp(-pred)) - target, by a power that is at most 1. */
#ifndef BCE_LOGITS_SLOPE_F32_H
#define BCE_LOGITS_SLOPE_F32_H

#include "math_f32.h"

static inline float bce_logits_slope(float pred, float target) {
    const float power = expf_f32(-__builtin_fabsf(pred)), less = QUOTIENT_F32(power, 1.0f + power);
    return pred >= 0.0f ? (1.0f - target) - less : less - target;
}

#endif
