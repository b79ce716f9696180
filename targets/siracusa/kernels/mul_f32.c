/* Y = A * B. */
#include "mul_f32.h"
#include "flat.h"

#define TEXT(a, b) "fmul.s " a ", " a ", " b "\n"
#define BINARY_UNIT_F32(f, y, a, b, count) FLAT_PAIRS(TEXT, 1, y, a, b, count)
#define BINARY_STRIDED_F32(f, ...) FLAT_STRIDED(f, TEXT, 1, __VA_ARGS__)
#include "binary_f32.h"

static inline float mul(float a, float b) {
    return a * b;
}

BINARY_F32(mul_f32, mul)
