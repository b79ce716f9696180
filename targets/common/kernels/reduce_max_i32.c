/* The maximum of integers over some axes. */
#include "reduce_max_i32.h"
#include "reduce_max.h"

static inline uint32_t exceeds_i32(int32_t value, int32_t max) {
    return value > max;
}

REDUCE_MAX(reduce_max_i32, int32_t, exceeds_i32)
