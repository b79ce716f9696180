/* dX of a convolution. Each input sums outputs, kernel rows and kernel columns in blocks of whole outputs, as
 * products_f32.h says, over the taps that met it; so the bits do not depend on tiles or cores. Between tiles of outputs
 * the raw total waits in dX. With a gate, Y of the Relu that made X, a complete sum stays only where that is above
 * zero. Four channels at a time share what is read of dY. */
#include "conv_grad_x_f32.h"
#include "activation_f32.h"
#include "four_f32.h"
#include "hal.h"
#include "products_f32.h"
#include "share_f32.h"
#include "taps_f32.h"

/* The windows that an input lies in. */
typedef struct {
    taps_t kh, kw;
    const float *dy; /* of the first of them, in the first output */
    uint32_t w;      /* its tap in a filter */
} windows_t;

/* The total of one channel's input. */
static void channel_sum(const conv_grad_x_f32_args_t *p, const windows_t *v, const float *w, float *dx, uint32_t outputs) {
    uint32_t first = p->first;
    float sum = first ? 0.0f : *dx;
    for (uint32_t m = 0; m < p->m;) {
        const uint32_t end = hal_min(m + outputs, p->m);
        float block = p->single ? sum : 0.0f;
        for (; m < end; m++) {
            const float *dy_row = v->dy + m * p->dy_m, *w_row = w + v->w + m * p->w_m;
            for (uint32_t a = v->kh.count; a > 0; a--, dy_row -= p->back_h * p->dy_h, w_row += p->step_h * p->kw) {
                const float *dy = dy_row, *tap = w_row;
                for (uint32_t b = v->kw.count; b > 0; b--, dy -= p->back_w, tap += p->step_w)
                    block = __builtin_fmaf(*dy, *tap, block);
            }
        }
        sum = products_add(sum, block, first | p->single);
        first = 0;
    }
    *dx = sum;
}

/* The totals of four channels' inputs at one place. */
static void channel_sums(const conv_grad_x_f32_args_t *p, const windows_t *v, const float *w, float *dx, uint32_t outputs) {
    const uint32_t w_c = p->w_c;
    uint32_t first = p->first;
    four_t sums = first ? four_zero() : four_load(dx, p->dx_c);
    for (uint32_t m = 0; m < p->m;) {
        const uint32_t end = hal_min(m + outputs, p->m);
        four_t blocks = p->single ? sums : four_zero();
        for (; m < end; m++) {
            const float *dy_row = v->dy + m * p->dy_m, *w_row = w + v->w + m * p->w_m;
            for (uint32_t a = v->kh.count; a > 0; a--, dy_row -= p->back_h * p->dy_h, w_row += p->step_h * p->kw) {
                const float *dy = dy_row, *tap = w_row;
                for (uint32_t b = v->kw.count; b > 0; b--, dy -= p->back_w, tap += p->step_w)
                    blocks = four_fma(*dy, tap, w_c, blocks);
            }
        }
        sums = four_add(sums, blocks, first | p->single);
        first = 0;
    }
    four_store(dx, p->dx_c, sums);
}

void conv_grad_x_f32(const void *args) {
    const conv_grad_x_f32_args_t *p = args;
    const uint32_t outputs = products_block(p->m, taps_met(p->kh, p->step_h) * taps_met(p->kw, p->step_w));
    const uint32_t groups = (p->c + FOUR - 1) / FOUR;
    const share_t share = share_of(p->n * p->g * groups * p->ih);
    for (uint32_t i = share.begin; i < share.end; i++) {
        const uint32_t ih = i % p->ih, part = i / p->ih, c = part % groups * FOUR;
        const uint32_t g = part / groups % p->g, n = part / groups / p->g, channels = hal_min(FOUR, p->c - c);
        const float *dy = p->dy + n * p->dy_n + g * p->dy_g, *w = p->w + g * p->w_g + c * p->w_c;
        float *dx = p->dx + n * p->dx_n + g * p->dx_g + c * p->dx_c + ih * p->dx_h;
        windows_t v = {.kh = taps_of(p->top + (int32_t)ih, p->kh, p->dh, p->sh, p->dy_rows)};
        for (uint32_t iw = 0; iw < p->iw; iw++) {
            v.kw = taps_of(p->left + (int32_t)iw, p->kw, p->dw, p->sw, p->dy_cols);
            v.dy = dy + v.kh.window * p->dy_h + v.kw.window;
            v.w = v.kh.first * p->kw + v.kw.first;
            if (channels == FOUR)
                channel_sums(p, &v, w, dx + iw, outputs);
            else
                for (uint32_t k = 0; k < channels; k++) channel_sum(p, &v, w + k * p->w_c, dx + k * p->dx_c + iw, outputs);
        }
        for (uint32_t k = 0; k < channels && p->last && p->gate; k++) {
            const float *gate = p->gate + n * p->gate_n + g * p->gate_g + (c + k) * p->gate_c + ih * p->gate_h;
            for (uint32_t iw = 0; iw < p->iw; iw++) dx[k * p->dx_c + iw] = gated_f32(dx[k * p->dx_c + iw], gate[iw]);
        }
    }
}
