/* The maximum over some axes; NaN where an element is. */
#include "reduce_max_f32.h"
#include "reduce_max.h"

static inline uint32_t exceeds_f32(float value, float max) {
    return !(value <= max) && max == max;
}

REDUCE_MAX(reduce_max_f32, float, exceeds_f32)
