/* Y = (X - zero) * scale; the channels of X are innermost, those of Y in front. */
#include "dequantize_images_i8.h"
#include "hal.h"
#include "share_f32.h"

void dequantize_images_i8(const void *args) {
    const dequantize_images_i8_args_t *p = args;
    const share_t share = share_of(p->n * p->p);
    for (uint32_t i = share.begin; i < share.end; i++) {
        const uint32_t n = i / p->p, place = i - n * p->p;
        const int8_t *x = p->x + n * p->x_n + place * p->x_p;
        float *y = p->y + n * p->y_n + place;
        for (uint32_t m = 0; m < p->m; m++) y[m * p->y_m] = (float)(x[m] - p->zero) * p->scale;
    }
}
