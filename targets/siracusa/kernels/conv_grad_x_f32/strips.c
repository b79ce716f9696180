/* dX of a convolution of depthwise windows in strips of columns: conv_strips.h. */
#include "conv_grad_x_f32.h"
#define CONV_APART (-1)
#include "conv_strips.h"

void conv_grad_x_f32_strips(const void *args) {
    const conv_grad_x_f32_args_t *p = args;
    const strips_t v = {
        .x = p->dy, .w = p->w, .b = 0, .gate = p->gate, .y = p->dx, .images = p->n, .groups = p->g, .rows = p->ih,
        .columns = p->iw, .x_rows = p->dy_rows, .x_columns = p->dy_cols, .x_n = p->dy_n, .x_g = p->dy_g,
        .x_h = p->dy_h, .w_g = p->w_g, .w_h = 3, .b_g = 0, .y_n = p->dx_n, .y_g = p->dx_g, .y_h = p->dx_h, .relu = 0,
        .gate_n = p->gate_n, .gate_g = p->gate_g, .gate_h = p->gate_h,
        .top = p->top, .left = p->left - 2, .move = 1, .apart = -(int32_t)p->dh,
    };
    strips(&v);
}
