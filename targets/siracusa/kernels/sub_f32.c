/* Y = A - B. */
#include "sub_f32.h"
#include "flat.h"

#define TEXT(a, b) "fsub.s " a ", " a ", " b "\n"
#define BINARY_UNIT_F32(f, y, a, b, count) FLAT_PAIRS(TEXT, 1, y, a, b, count)
#define BINARY_STRIDED_F32(f, ...) FLAT_STRIDED(f, TEXT, 0, __VA_ARGS__)
#include "binary_f32.h"

static inline float sub(float a, float b) {
    return a - b;
}

BINARY_F32(sub_f32, sub)
