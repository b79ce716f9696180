/* Y = A + B. */
#include "add_f32.h"
#include "binary_f32.h"

static inline float add(float a, float b) {
    return a + b;
}

BINARY_F32(add_f32, add)
