/* The k largest elements of each line, or the smallest, in order; NaN beats none. */
#include "top_k_f32.h"
#include "top_k.h"

static inline uint32_t beats_f32(float x, float y, uint32_t largest) {
    return (largest ? x > y : x < y) || (y != y && x == x);
}

TOP_K(top_k_f32, float, beats_f32)
