/* The logarithm of a sum of powers, as softmax's logarithm and the loss over classes have it. */
#ifndef LOG_SUM_F32_H
#define LOG_SUM_F32_H

#include "math_f32.h"
#include "sum_f32.h"

/* log(sum(exp(x - max))) over elements that lie `step` apart, in the order of sum_f32.h; `max` becomes the largest. */
static inline float log_sum_f32(const float *x, uint32_t step, uint32_t count, float *max) {
    const uint32_t size = count > SUM_BLOCK ? SUM_BLOCK : 0;
    float largest = x[0];
    for (uint32_t i = 1; i < count; i++) largest = x[i * step] > largest ? x[i * step] : largest;
    sum_t powers = {0};
    for (uint32_t i = 0; i < count;)
        for (const uint32_t end = i + sum_next(&powers, size, i, count - i); i < end; i++)
            powers.block += expf_f32(x[i * step] - largest);
    *max = largest;
    return logf_f32(sum_value(&powers, size));
}

#endif
