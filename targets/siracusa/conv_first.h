/* The first layer of a network: one channel in, a window of any size without padding or dilation, and neither bias nor Relu
 * behind. Rows of Y are multiples of four, as are its channels. */
#ifndef CONV_FIRST_H
#define CONV_FIRST_H

#include "conv_f32.h"
#include "gemm_rows.h"
#include "hal.h"

/* Blocks of four channels by four neighbours in a row; every core has as many one after the other as any. */
static inline void first_layer(const conv_f32_args_t *p) {
    const uint32_t channels = p->m >> 2, all = channels * p->oh * (p->ow >> 2), each = rounds_of(all, hal_core_count());
    uint32_t index = hal_core_id() * each, row = 0, column = 0;
    if (index >= all) return;
    uint32_t count = hal_min(each, all - index);
    while (index >= channels) {
        index -= channels, column += 4;
        if (column == p->ow) column = 0, row++;
    }
    const float *const x = p->x + p->top * (int32_t)p->x_h + p->left;
    rows_product_t v = {.a_m = 4 * p->w_m, .a_row = 0, .b_n = 4 * p->sw, .b_k = 4, .b_row = 4 * (p->x_h - p->kw),
                        .k = p->kw, .rows = p->kh};
    for (; count > 0; count--) {
        float s[4][4];
        v.a = p->w + 4 * index * p->w_m, v.b = x + row * p->sh * p->x_h + column * p->sw;
        gemm_rows(&v, s);
        put_block(s, p->y + 4 * index * p->y_m + row * p->y_h + column, p->y_m);
        if (++index < channels) continue;
        index = 0, column += 4;
        if (column == p->ow) column = 0, row++;
    }
}

#endif
