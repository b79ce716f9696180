/* dX of a convolution. Each input sums outputs, kernel rows and kernel columns in blocks of whole outputs, as
 * products_f32.h says, over the taps that met it; so the bits do not depend on tiles or cores. Between tiles of outputs
 * the raw total waits in dX. With a gate, Y of the Relu that made X, a complete sum stays only where that is above
 * zero. */
#include "conv_grad_x_f32.h"
#include "activation_f32.h"
#include "hal.h"
#include "products_f32.h"
#include "share_f32.h"
#include "taps_f32.h"

void conv_grad_x_f32(const void *args) {
    const conv_grad_x_f32_args_t *p = args;
    const uint32_t outputs = products_block(p->m, taps_met(p->kh, p->step_h) * taps_met(p->kw, p->step_w));
    const share_t share = share_of(p->n * p->g * p->c * p->ih * p->iw);
    for (uint32_t i = share.begin; i < share.end; i++) {
        const uint32_t iw = i % p->iw, row = i / p->iw, ih = row % p->ih, channel = row / p->ih;
        const uint32_t c = channel % p->c, group = channel / p->c, g = group % p->g, n = group / p->g;
        const taps_t kh = taps_of(p->top + (int32_t)ih, p->kh, p->dh, p->sh, p->dy_rows);
        const taps_t kw = taps_of(p->left + (int32_t)iw, p->kw, p->dw, p->sw, p->dy_cols);
        const float *dy = p->dy + n * p->dy_n + g * p->dy_g, *w = p->w + g * p->w_g + c * p->w_c;
        float *dx = p->dx + n * p->dx_n + g * p->dx_g + c * p->dx_c + ih * p->dx_h + iw;
        float sum = p->first ? 0.0f : *dx;
        for (uint32_t m = 0; m < p->m;) {
            const uint32_t end = hal_min(m + outputs, p->m), first = p->single || (p->first && m == 0);
            float block = p->single ? sum : 0.0f;
            for (; m < end; m++)
                for (uint32_t a = 0; a < kh.count; a++) {
                    const float *dy_row = dy + m * p->dy_m + (kh.window - a * p->back_h) * p->dy_h;
                    const float *w_row = w + m * p->w_m + (kh.first + a * p->step_h) * p->kw;
                    for (uint32_t b = 0; b < kw.count; b++) {
                        const float weight = w_row[kw.first + b * p->step_w];
                        block = __builtin_fmaf(dy_row[kw.window - b * p->back_w], weight, block);
                    }
                }
            sum = products_add(sum, block, first);
        }
        if (p->last && p->gate)
            sum = gated_f32(sum, p->gate[n * p->gate_n + g * p->gate_g + c * p->gate_c + ih * p->gate_h + iw]);
        *dx = sum;
    }
}
