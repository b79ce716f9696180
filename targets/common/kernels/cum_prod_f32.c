/* Products of all elements so far along each line. */
#include "cum_prod_f32.h"
#include "cumulative.h"

static inline float product_f32(float a, float b) {
    return a * b;
}

CUMULATIVE(cum_prod_f32, float, 1.0f, product_f32)
