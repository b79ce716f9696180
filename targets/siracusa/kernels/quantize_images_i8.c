/* Y = X / scale, rounded half to even and clipped, by the scale's inverse as in quantize_i8.c; the channels of X are in front, those
 * of Y innermost. */
#include "quantize_images_i8.h"
#include "hal.h"
#include "quotient.h"
#include "requantize_i8.h"
#include "round_i8.h"
#include "share_f32.h"

#define LARGE 0xc0000000u /* twice the bits of 2^65 */

void quantize_images_i8(const void *args) {
    const quantize_images_i8_args_t *p = args;
    const share_t share = share_of(p->n * p->p);
    if (share.begin == share.end) return;
    const float scale = p->scale;
    const int seldom = unusual_divisor(scale);
    const float inverse = seldom ? 0 : inverse_of(scale);
    const int32_t low = (int32_t)p->low, high = (int32_t)p->high, zero = p->zero;
    const uint32_t x_m = p->x_m, m = p->m;
    uint32_t n = share.begin / p->p, place = share.begin - n * p->p;
    for (uint32_t left = share.end - share.begin; left > 0; left--) {
        const float *x = p->x + n * p->x_n + place;
        int8_t *y = p->y + n * p->y_n + place * p->y_p;
        for (int8_t *const end = y + m; y < end; y++, x += x_m) {
            if (__builtin_expect(seldom | (2 * bits_in_core(*x) >= LARGE), 0))
                *y = rounded_i8(*x / scale, p->low, p->high, zero);
            else
                *y = (int8_t)(rounded(quotient_by(*x, scale, inverse), low, high) + zero);
        }
        if (++place == p->p) place = 0, n++;
    }
}
