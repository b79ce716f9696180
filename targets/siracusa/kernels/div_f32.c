/* Y = A / B; where one B divides a line, what the quotients need of it is computed once. */
#include "div_f32.h"
#include "quotient_f32.h"

/* Elements that lie apart, or of which b is one for all. */
#define BINARY_STRIDED_F32(f, y, a, a_next, b, b_next, count)                                                         \
    if ((b_next) == 0)                                                                                                \
        quotients_of(y, a, a_next, *(b), count);                                                                      \
    else                                                                                                              \
        for (uint32_t j = 0; j < (count); j++) (y)[j] = f((a)[j * (a_next)], (b)[j * (b_next)])
#include "binary_f32.h"

static inline float quotient(float a, float b) {
    return QUOTIENT_F32(a, b);
}

BINARY_F32(div_f32, quotient)
