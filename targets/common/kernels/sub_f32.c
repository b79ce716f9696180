/* Y = A - B. */
#include "sub_f32.h"
#include "binary_f32.h"

static inline float sub(float a, float b) {
    return a - b;
}

BINARY_F32(sub_f32, sub)
