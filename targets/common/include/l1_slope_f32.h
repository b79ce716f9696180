/* The slope of |pred - target|: its sign, 0 where both are equal. */
#ifndef L1_SLOPE_F32_H
#define L1_SLOPE_F32_H

static inline float l1_slope(float pred, float target) {
    const float difference = pred - target;
    return difference > 0.0f ? 1.0f : difference < 0.0f ? -1.0f : difference;
}

#endif
