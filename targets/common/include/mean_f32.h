/* The mean of numbers of which a pivot was subtracted before they were summed, and their deviation about it. */
#ifndef MEAN_F32_H
#define MEAN_F32_H

#include "math_f32.h"

/* A mean as two floats: what the first lacks is the second. */
typedef struct {
    float mean, lacks;
} mean_t;

static inline mean_t mean_of(float sum, float inverse_count, float pivot) {
    const float mean = __builtin_fmaf(sum, inverse_count, pivot);
    return (mean_t){mean, __builtin_fmaf(sum, inverse_count, pivot - mean)};
}

/* 1 / sqrt(variance + epsilon) by the sum of squares of distances from the mean's first float. */
static inline float deviation_of(float squares, float inverse_count, float epsilon, float lacks) {
    return rsqrt_f32(__builtin_fmaf(-lacks, lacks, __builtin_fmaf(squares, inverse_count, epsilon)));
}

#endif
