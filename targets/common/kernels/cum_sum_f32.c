/* Sums of all elements so far along each line. */
#include "cum_sum_f32.h"
#include "cumulative.h"

static inline float sum_f32(float a, float b) {
    return a + b;
}

CUMULATIVE(cum_sum_f32, float, 0.0f, sum_f32)
