/* Y = A + B. */
#include "add_f32.h"
#include "flat.h"

#define TEXT(a, b) "fadd.s " a ", " a ", " b "\n"
#define BINARY_UNIT_F32(f, y, a, b, count) FLAT_PAIRS(TEXT, 1, y, a, b, count)
#include "binary_f32.h"

static inline float add(float a, float b) {
    return a + b;
}

BINARY_F32(add_f32, add)
