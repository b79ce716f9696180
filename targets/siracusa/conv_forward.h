/* A convolution's sums and axes as conv_sums.h has them. */
#ifndef CONV_FORWARD_H
#define CONV_FORWARD_H

#include "conv_f32.h"
#define CONV_APART 1
#include "conv_sums.h"

static __attribute__((noinline)) axis_t axis_of(uint32_t count, int32_t at, uint32_t stride, uint32_t taps, uint32_t dilation,
                             uint32_t length) {
    axis_t axis = {.first = 0, .step = 1, .count = count, .taps = taps, .tap = 0, .tap_step = 1, .length = length};
    axis.at = at, axis.move = (int32_t)stride, axis.apart = (int32_t)dilation;
    find_inside(&axis);
    return axis;
}

INLINE axis_t rows_of(const conv_f32_args_t *p) {
    return axis_of(p->oh, p->top, p->sh, p->kh, p->dh, p->x_rows);
}

INLINE axis_t columns_of(const conv_f32_args_t *p) {
    return axis_of(p->ow, p->left, p->sw, p->kw, p->dw, p->x_cols);
}

INLINE conv_t sums_of(const conv_f32_args_t *p) {
    return (conv_t){
        .x = p->x, .w = p->w, .b = p->last ? p->b : 0, .y = p->y, .n = p->n, .g = p->g, .m = p->m, .c = p->c,
        .first = p->first, .single = p->single, .relu = p->last && p->relu,
        .together = products_block(p->c, p->kh * p->kw), .x_n = p->x_n, .x_g = p->x_g, .x_c = p->x_c, .x_h = p->x_h,
        .w_g = p->w_g, .w_m = p->w_m, .w_c = p->w_c, .w_h = p->kw, .b_g = p->b_g, .y_n = p->y_n, .y_g = p->y_g,
        .y_m = p->y_m, .y_h = p->y_h,
    };
}

#endif
