/* Y = A * B. */
#include "mul_f32.h"
#include "binary_f32.h"

static inline float mul(float a, float b) {
    return a * b;
}

BINARY_F32(mul_f32, mul)
