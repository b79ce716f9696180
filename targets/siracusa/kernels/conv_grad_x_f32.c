/* dX of a convolution; the portable kernel defines the bits: each input sums outputs, kernel rows and kernel columns
 * in blocks of whole outputs, over the taps that met it, to what waits in dX; a gate decides what stays.
 *
 * Of every `stride` neighbours each has its own taps, and those of one kind make up an image of their own. */
#include "conv_grad_x_f32.h"
#define CONV_APART (-1)
#include "conv.h"

/* Inputs phase, phase + stride, .. of an axis; input 0 lies at `at` among the windows' first taps. */
static inline axis_t axis_of(uint32_t phase, uint32_t inputs, int32_t at, uint32_t stride, uint32_t taps,
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

void conv_grad_x_f32(const void *args) {
    const conv_grad_x_f32_args_t *p = args;
    const uint32_t gate_alike = (p->n == 1 || p->gate_n == p->dx_n) && (p->g == 1 || p->gate_g == p->dx_g) &&
                                (p->c == 1 || p->gate_c == p->dx_c) && (p->ih == 1 || p->gate_h == p->dx_h);
    const int one_tap = p->kh * p->kw * p->sh * p->sw == 1 && p->dy_rows == p->ih && p->dy_cols == p->iw &&
                        p->dy_h == p->iw && p->dx_h == p->iw;
    const conv_t v = {
        .x = p->dy, .w = p->w, .y = p->dx, .n = p->n, .g = p->g, .m = p->c, .c = p->m, .first = p->first,
        .single = p->single,
        .together = products_block(p->m, taps_met(p->kh, p->step_h) * taps_met(p->kw, p->step_w)),
        .x_n = p->dy_n, .x_g = p->dy_g, .x_c = p->dy_m, .x_h = p->dy_h, .w_g = p->w_g, .w_m = p->w_c, .w_c = p->w_m,
        .w_h = p->kw, .b = 0, .b_g = 0, .relu = 0, .y_n = p->dx_n, .y_g = p->dx_g, .y_m = p->dx_c, .y_h = p->dx_h,
        .gate = p->last ? p->gate : 0, .gate_n = p->gate_n, .gate_g = p->gate_g, .gate_m = p->gate_c,
        .gate_h = p->gate_h,
        .gate_alike = gate_alike,
    };
    if (one_tap) {
        one_row(&v, p->ih * p->iw);
        return;
    }
    uint32_t turn = hal_core_id();
    for (uint32_t i = 0; i < p->sh && i < p->ih; i++) {
        const axis_t rows = axis_of(i, p->ih, p->top, p->sh, p->kh, p->dh, p->step_h, p->back_h, p->dy_rows);
        for (uint32_t j = 0; j < p->sw && j < p->iw; j++) {
            const axis_t columns = axis_of(j, p->iw, p->left, p->sw, p->kw, p->dw, p->step_w, p->back_w, p->dy_cols);
            turn = plane(&v, &rows, &columns, turn);
        }
    }
}
