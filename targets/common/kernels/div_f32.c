/* Y = A / B. */
#include "div_f32.h"
#include "binary_f32.h"
#include "quotient_f32.h"

static inline float div(float a, float b) {
    return QUOTIENT_F32(a, b);
}

BINARY_F32(div_f32, div)
