/* Y = X / scale, rounded half to even and clipped, four at a time by the scale's inverse. A dividend that is too small for
 * quotient_by has a quotient of nearly nothing in both ways; too large ones, and scales, are left to the divider. */
#include "quantize_i8.h"
#include "hal.h"
#include "quotient.h"
#include "requantize_i8.h"
#include "round_i8.h"
#include "share_f32.h"

#define LARGE 0xc0000000u /* twice the bits of 2^65 */

static inline void divided(const quantize_i8_args_t *p, uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; i++) p->y[i] = rounded_i8(p->x[i] / p->scale, p->low, p->high, p->zero);
}

void quantize_i8(const void *args) {
    const quantize_i8_args_t *p = args;
    const share_t share = share_of(p->n >> 2);
    const float scale = p->scale;
    if (unusual_divisor(scale)) {
        divided(p, 4 * share.begin, 4 * share.end);
    } else {
        const float inverse = inverse_of(scale);
        const int32_t low = (int32_t)p->low, high = (int32_t)p->high;
        const uint32_t zeros = in_each_byte(p->zero);
        for (uint32_t i = 4 * share.begin; i < 4 * share.end; i += 4) {
            const float *x = p->x + i;
            uint32_t most = 0;
            int32_t numbers[4];
#pragma GCC unroll 4
            for (uint32_t k = 0; k < 4; k++) {
                __asm__(MAX_UNSIGNED("%0", "%0", "%1") : "+r"(most) : "r"(2 * bits_in_core(x[k])));
                numbers[k] = rounded(quotient_by(x[k], scale, inverse), low, high);
            }
            if (__builtin_expect(most >= LARGE, 0))
                divided(p, i, i + 4);
            else
                put_four(p->y + i, four_of(numbers, zeros));
        }
    }
    if (hal_core_id() == 0) divided(p, p->n & ~3u, p->n);
}
