/* A plane that is one block of sums, without padding or dilation: four outputs by four neighbours in a row of taps, or, of
 * windows of a single tap, by four channels. */
#ifndef CONV_GRAD_W_ROWS_H
#define CONV_GRAD_W_ROWS_H

#include "conv_grad_w_args.h"
#include "gemm_rows.h"
#include "hal.h"

/* Every core has as many blocks one after the other as any: along a row, then rows of taps and channels, then outputs. */
static inline void rows_of_taps(const args_t *p) {
    const uint32_t single = p->kh * p->kw == 1, length = single ? p->c : p->kw, next = single ? p->x_c : 1;
    const uint32_t channels = single ? 1 : p->c, taps = p->kh * length, all = (p->m >> 2) * channels * (taps >> 2);
    const uint32_t each = rounds_of(all, hal_core_count());
    const uint32_t begin = hal_core_id() * each;
    if (begin >= all) return;
    uint32_t count = hal_min(each, all - begin), m = 0, c = 0, a = 0, at = 4 * begin;
    while (at >= channels * taps) at -= channels * taps, m += 4;
    while (at >= taps) at -= taps, c++;
    while (at >= length) at -= length, a++;
    const float *const x = p->x + p->top * (int32_t)p->x_h + p->left;
    rows_product_t v = {.a_m = 4 * p->dy_m, .a_row = 4 * (p->dy_h - p->ow), .b_n = 4 * next, .b_k = 4 * p->sw,
                        .b_row = 4 * (p->sh * p->x_h - p->ow * p->sw), .k = p->ow, .rows = p->oh};
    if ((v.a_row | v.b_row) == 0) v.k *= v.rows, v.rows = 1;
    for (; count > 0; count--) {
        float s[4][4];
        v.a = p->dy + m * p->dy_m, v.b = x + c * p->x_c + a * p->x_h + at * next;
        gemm_rows(&v, s);
        float *w = p->grad + m * p->dw_m + c * p->dw_c + a * p->kw + at;
        UNROLL for (uint32_t i = 0; STEPS && i < 4; i++) {
            UNROLL for (uint32_t k = 0; k < 4; k++) s[i][k] = stepped(p, w + i * p->dw_m + k, s[i][k]);
        }
        put_block(s, w, p->dw_m);
        at += 4;
        if (at == length) at = 0, a++;
        if (a == p->kh) a = 0, c++;
        if (c == channels) c = 0, m += 4;
    }
}

#endif
