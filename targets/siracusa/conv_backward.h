/* The sums and axes of a convolution's dX as conv_sums.h has them. */
#ifndef CONV_BACKWARD_H
#define CONV_BACKWARD_H

#include "conv_grad_x_f32.h"
#define CONV_APART (-1)
#include "conv_sums.h"

/* Inputs phase, phase + stride, .. of an axis; input 0 lies at `at` among the windows' first taps. */
static __attribute__((unused, noinline)) axis_t axis_of(uint32_t phase, uint32_t inputs, int32_t at, uint32_t stride, uint32_t taps,
                             uint32_t dilation, uint32_t tap_step, uint32_t back, uint32_t length) {
    axis_t axis = {.first = phase, .step = stride, .count = 0, .taps = 0, .tap = 0, .tap_step = tap_step};
    axis.length = length, axis.move = 1;
    axis.apart = -(int32_t)back;
    at += (int32_t)phase;
    if (stride == 1) {
        axis.count = inputs, axis.taps = taps, axis.at = at;
    } else {
        for (uint32_t i = phase; i < inputs; i += stride) axis.count++;
        while (axis.tap < taps && (at - (int32_t)(axis.tap * dilation)) % (int32_t)stride != 0) axis.tap++;
        for (uint32_t k = axis.tap; k < taps; k += tap_step) axis.taps++;
        axis.at = (at - (int32_t)(axis.tap * dilation)) / (int32_t)stride;
    }
    find_inside(&axis);
    return axis;
}

/* The same without strides. */
static __attribute__((unused, noinline)) axis_t near_axis_of(uint32_t inputs, int32_t at, uint32_t taps, uint32_t back, uint32_t length) {
    axis_t axis = {.first = 0, .step = 1, .count = inputs, .taps = taps, .tap = 0, .tap_step = 1, .length = length};
    axis.at = at, axis.move = 1, axis.apart = -(int32_t)back;
    find_inside(&axis);
    return axis;
}

INLINE axis_t near_rows_of(const conv_grad_x_f32_args_t *p) {
    return near_axis_of(p->ih, p->top, p->kh, p->back_h, p->dy_rows);
}

INLINE axis_t near_columns_of(const conv_grad_x_f32_args_t *p) {
    return near_axis_of(p->iw, p->left, p->kw, p->back_w, p->dy_cols);
}

INLINE axis_t rows_of(const conv_grad_x_f32_args_t *p, uint32_t phase) {
    return axis_of(phase, p->ih, p->top, p->sh, p->kh, p->dh, p->step_h, p->back_h, p->dy_rows);
}

INLINE axis_t columns_of(const conv_grad_x_f32_args_t *p, uint32_t phase) {
    return axis_of(phase, p->iw, p->left, p->sw, p->kw, p->dw, p->step_w, p->back_w, p->dy_cols);
}

/* Whether a gate lies like the result. */
INLINE uint32_t lies_alike(const conv_grad_x_f32_args_t *p) {
    return (p->n == 1 || p->gate_n == p->dx_n) && (p->g == 1 || p->gate_g == p->dx_g) &&
           (p->c == 1 || p->gate_c == p->dx_c) && (p->ih == 1 || p->gate_h == p->dx_h);
}

/* The most taps that an input meets. */
INLINE uint32_t most_taps(const conv_grad_x_f32_args_t *p) {
    return taps_met(p->kh, p->step_h) * taps_met(p->kw, p->step_w);
}

/* `taps` are the most that an input meets. */
INLINE conv_t sums_of(const conv_grad_x_f32_args_t *p, uint32_t taps) {
    return (conv_t){
        .x = p->dy, .w = p->w, .y = p->dx, .n = p->n, .g = p->g, .m = p->c, .c = p->m, .first = p->first,
        .single = p->single,
        .together = products_block(p->m, taps),
        .x_n = p->dy_n, .x_g = p->dy_g, .x_c = p->dy_m, .x_h = p->dy_h, .w_g = p->w_g, .w_m = p->w_c, .w_c = p->w_m,
        .w_h = p->kw, .y_n = p->dx_n, .y_g = p->dx_g, .y_m = p->dx_c, .y_h = p->dx_h,
        .gate = p->last ? p->gate : 0, .gate_n = p->gate_n, .gate_g = p->gate_g, .gate_m = p->gate_c,
        .gate_h = p->gate_h,
        .gate_alike = lies_alike(p),
    };
}

#endif
