/* Y = A * B. */
#include "mul_f32.h"
#include "flat.h"

#define TEXT(a, b) "fmul.s " a ", " a ", " b "\n"
#define BINARY_UNIT_F32(f, y, a, b, count) FLAT_PAIRS(TEXT, 1, y, a, b, count)
#define BINARY_STRIDED_F32(f, y, a, a_next, b, b_next, count)                                                         \
    if ((b_next) == 0 && (a_next) == 1)                                                                               \
        FLAT_SCALED(f, TEXT, y, a, *(b), count);                                                                      \
    else if ((a_next) == 0 && (b_next) == 1)                                                                          \
        FLAT_SCALED(f, TEXT, y, b, *(a), count);                                                                      \
    else                                                                                                              \
        for (uint32_t j = 0; j < (count); j++) (y)[j] = f((a)[j * (a_next)], (b)[j * (b_next)])
#include "binary_f32.h"

static inline float mul(float a, float b) {
    return a * b;
}

BINARY_F32(mul_f32, mul)
