/* Y = round(ratio * (X * W + bias)) with a filter for each channel, channels innermost. A sum is exact. Taps in padding count
 * X's zero, which the bias has taken off. */
#include "depthwise_conv_i8.h"
#include "hal.h"
#include "requantize_i8.h"
#include "share_f32.h"
#include "taps_f32.h"

#define CHANNELS 8

/* Adds the products of the taps of `count` neighbouring channels; what is outside of X is X's zero. */
static inline void window(const depthwise_conv_i8_args_t *p, const int8_t *x, const int8_t *w, uint32_t count, int32_t top,
                          int32_t left, int32_t *sums) {
    for (uint32_t a = 0; a < p->kh; a++) {
        const int32_t row = top + (int32_t)(a * p->dh);
        const int8_t *tap = w + a * p->w_h;
        for (uint32_t b = 0; b < p->kw; b++, tap += p->w_w) {
            const int32_t column = left + (int32_t)(b * p->dw);
            if (row >= 0 && row < (int32_t)p->x_rows && column >= 0 && column < (int32_t)p->x_cols) {
                const int8_t *at = x + (uint32_t)row * p->x_h + (uint32_t)column * p->x_w;
                for (uint32_t k = 0; k < count; k++) sums[k] += at[k] * (tap[k] - p->w_zero);
            } else {
                for (uint32_t k = 0; k < count; k++) sums[k] += p->x_zero * (tap[k] - p->w_zero);
            }
        }
    }
}

void depthwise_conv_i8(const void *args) {
    const depthwise_conv_i8_args_t *p = args;
    const share_t share = share_of(p->n * p->oh * p->ow);
    const range_i8_t range = range_i8(p->low, p->high, p->zero);
    for (uint32_t i = share.begin; i < share.end; i++) {
        const uint32_t ow = i % p->ow, line = i / p->ow, oh = line % p->oh, n = line / p->oh;
        const int32_t top = p->top + (int32_t)(oh * p->sh), left = p->left + (int32_t)(ow * p->sw);
        const int8_t *x = p->x + n * p->x_n;
        int8_t *y = p->y + n * p->y_n + oh * p->y_h + ow * p->y_w;
        for (uint32_t m = 0; m < p->m; m += CHANNELS) {
            const uint32_t count = hal_min(CHANNELS, p->m - m);
            int32_t sums[CHANNELS];
            for (uint32_t k = 0; k < count; k++) sums[k] = p->b[m + k];
            window(p, x + m, p->w + m, count, top, left, sums);
            for (uint32_t k = 0; k < count; k++)
                y[m + k] = requantized_i8(sums[k], p->ratio[m + k], range);
        }
    }
}
