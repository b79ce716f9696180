/* Y = X / scale, rounded half to even and clipped; the channels of X are in front, those of Y innermost. */
#include "quantize_images_i8.h"
#include "hal.h"
#include "requantize_i8.h"
#include "share_f32.h"

void quantize_images_i8(const void *args) {
    const quantize_images_i8_args_t *p = args;
    const share_t share = share_of(p->n * p->p);
    const float scale = p->scale, low = p->low, high = p->high;
    for (uint32_t i = share.begin; i < share.end; i++) {
        const uint32_t n = i / p->p, place = i - n * p->p;
        const float *x = p->x + n * p->x_n + place;
        int8_t *y = p->y + n * p->y_n + place * p->y_p;
        for (uint32_t m = 0; m < p->m; m++) y[m] = rounded_i8(x[m * p->x_m] / scale, low, high, p->zero);
    }
}
