/* The slope of the loss of Huber: the difference, which counts at most delta. */
#ifndef HUBER_SLOPE_F32_H
#define HUBER_SLOPE_F32_H

static inline float huber_slope(float pred, float target, float delta) {
    const float difference = pred - target;
    return difference > delta ? delta : difference < -delta ? -delta : difference;
}

#endif
