/* The k largest integers of each line, or the smallest, in order. */
#include "top_k_i32.h"
#include "top_k.h"

static inline uint32_t beats_i32(int32_t x, int32_t y, uint32_t largest) {
    return largest ? x > y : x < y;
}

TOP_K(top_k_i32, int32_t, beats_i32)
