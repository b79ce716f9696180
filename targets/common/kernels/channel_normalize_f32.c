/* Y = (X - mean) * factor + (rest * scale + bias) with factor = inv_std * scale per channel, where rest is what the mean's own
 * rounding leaves of (X - mean) inv_std, or absent; then Relu, where fused. X less the mean is
 * exact where they are near each other, however far from zero; X factor + (bias - mean factor) would cancel there. */
#include "channel_normalize_f32.h"
#include "activation_f32.h"
#include "hal.h"
#include "share_f32.h"

void channel_normalize_f32(const void *args) {
    const channel_normalize_f32_args_t *p = args;
    const share_t share = share_of(p->n * p->c * p->s);
    for (uint32_t i = share.begin; i < share.end;) {
        const uint32_t row = i / p->s, first = i - row * p->s, left = p->s - first;
        const uint32_t n = row / p->c, c = row - n * p->c, run = left < share.end - i ? left : share.end - i;
        const float factor = p->inv_std[c] * p->scale[c], mean = p->mean[c];
        const float bias = p->rest ? __builtin_fmaf(p->rest[c], p->scale[c], p->bias[c]) : p->bias[c];
        const float *x = p->x + n * p->x_n + c * p->x_c + first;
        float *y = p->y + n * p->y_n + c * p->y_c + first;
        for (uint32_t k = 0; k < run; k++) {
            const float value = __builtin_fmaf(x[k] - mean, factor, bias);
            y[k] = p->relu ? relu_f32_of(value) : value;
        }
        i += run;
    }
}
