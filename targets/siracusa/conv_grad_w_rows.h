/* Part of conv_grad_w.h: a plane that is one block of sums, without padding or dilation: four outputs by four neighbours
 * in a row of taps, or, of windows of a single tap, by four channels. */
#ifndef CONV_GRAD_W_ROWS_H
#define CONV_GRAD_W_ROWS_H

#include "gemm_rows.h"

static inline uint32_t fours_of(uint32_t count) {
    return count & 3 ? 0 : count >> 2;
}

/* How many such blocks there are; none where they are not all of it, or would be dealt out worse than single weights. */
static inline uint32_t rows_blocks(const args_t *p) {
    const uint32_t cores = hal_core_count();
    const uint32_t along = p->kh * p->kw == 1 ? fours_of(p->c) : p->c * p->kh * fours_of(p->kw);
    const uint32_t all = fours_of(p->m) * along;
    const int fits = p->first && p->single && p->dh * p->dw * p->g == 1 && p->top >= 0 && p->left >= 0 &&
                     (uint32_t)p->top + (p->oh - 1) * p->sh + p->kh <= p->x_rows &&
                     (uint32_t)p->left + (p->ow - 1) * p->sw + p->kw <= p->x_cols;
    return fits && 3 * turns_of(all, cores) <= turns_of(4 * all, cores) ? all : 0;
}

/* Every core has as many blocks one after the other as any: along a row, then rows of taps and channels, then outputs. */
static __attribute__((noinline)) void rows_of_taps(const args_t *p, uint32_t all) {
    const uint32_t single = p->kh * p->kw == 1, length = single ? p->c : p->kw, next = single ? p->x_c : 1;
    const uint32_t channels = single ? 1 : p->c, taps = p->kh * length, each = turns_of(all, hal_core_count());
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
