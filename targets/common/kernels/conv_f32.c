/* Y = X * W + B with groups. Each output sums channels, kernel rows and kernel columns in blocks of whole channels, as
 * products_f32.h says, and skips taps in padding; the bias comes last, and Relu behind it. So the bits do not depend on
 * tiles or cores; between tiles of channels the raw total waits in Y. */
#include "conv_f32.h"
#include "activation_f32.h"
#include "hal.h"
#include "products_f32.h"
#include "taps_f32.h"

void conv_f32(const void *args) {
    const conv_f32_args_t *p = args;
    const uint32_t channels = products_block(p->c, p->kh * p->kw);
    const share_t share = share_of(p->n * p->g * p->m * p->oh * p->ow);
    for (uint32_t i = share.begin; i < share.end; i++) {
        const uint32_t ow = i % p->ow, row = i / p->ow, oh = row % p->oh, channel = row / p->oh;
        const uint32_t m = channel % p->m, group = channel / p->m, g = group % p->g, n = group / p->g;
        const int32_t top = p->top + (int32_t)(oh * p->sh), left = p->left + (int32_t)(ow * p->sw);
        const share_t kh = taps_inside(top, p->kh, p->dh, p->x_rows);
        const share_t kw = taps_inside(left, p->kw, p->dw, p->x_cols);
        const float *x = p->x + n * p->x_n + g * p->x_g, *w = p->w + g * p->w_g + m * p->w_m;
        float *y = p->y + n * p->y_n + g * p->y_g + m * p->y_m + oh * p->y_h + ow;
        float sum = p->first ? 0.0f : *y;
        for (uint32_t c = 0; c < p->c;) {
            const uint32_t end = hal_min(c + channels, p->c), first = p->single || (p->first && c == 0);
            float block = p->single ? sum : 0.0f;
            for (; c < end; c++)
                for (uint32_t a = kh.begin; a < kh.end; a++) {
                    const float *x_row = x + c * p->x_c + (uint32_t)(top + (int32_t)(a * p->dh)) * p->x_h;
                    const float *w_row = w + c * p->w_c + a * p->kw;
                    for (uint32_t b = kw.begin; b < kw.end; b++)
                        block = __builtin_fmaf(x_row[left + (int32_t)(b * p->dw)], w_row[b], block);
                }
            sum = products_add(sum, block, first);
        }
        if (p->last && p->b) sum += p->b[g * p->b_g + m];
        if (p->last && p->relu) sum = relu_f32_of(sum);
        *y = sum;
    }
}
