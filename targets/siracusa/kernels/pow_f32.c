/* Y = A ^ B. Squares, and what stays as it is, by one exponent for all of a line, have loops of their own; they are what
 * powf_f32 makes of these exponents. */
#include "pow_f32.h"
#include "flat.h"
#include "lines_f32.h"
#include "math_f32.h"

#define SQUARE(x, unused) "fmul.s " x ", " x ", " x "\n"
#define BINARY_STRIDED_F32(f, ...) line_of(__VA_ARGS__)

static inline void line_of(float *y, const float *a, uint32_t a_next, const float *b, uint32_t b_next, uint32_t count) {
    if (b_next == 0 && a_next == 1 && *b == 2.0f)
        FLAT_SCALED(powf_f32, SQUARE, y, a, *b, count);
    else if (b_next == 0 && a_next == 1 && *b == 1.0f)
        copy_line_f32(y, a, 1, count);
    else
        for (uint32_t j = 0; j < count; j++) y[j] = powf_f32(a[j * a_next], b[j * b_next]);
}

#include "binary_f32.h"

BINARY_F32(pow_f32, powf_f32)
