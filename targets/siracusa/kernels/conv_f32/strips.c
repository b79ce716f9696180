/* A convolution of depthwise windows in strips of columns: conv_strips.h. */
#include "conv_f32.h"
#define CONV_APART 1
#include "conv_strips.h"

void conv_f32_strips(const void *args) {
    const conv_f32_args_t *p = args;
    const strips_t v = {
        .x = p->x, .w = p->w, .b = p->b, .gate = 0, .y = p->y, .images = p->n, .groups = p->g, .rows = p->oh,
        .columns = p->ow, .x_rows = p->x_rows, .x_columns = p->x_cols, .x_n = p->x_n, .x_g = p->x_g, .x_h = p->x_h,
        .w_g = p->w_g, .w_h = 3, .b_g = p->b_g, .y_n = p->y_n, .y_g = p->y_g, .y_h = p->y_h, .relu = p->relu,
        .gate_n = 0, .gate_g = 0, .gate_h = 0, .top = p->top, .left = p->left, .move = (int32_t)p->sh,
        .apart = (int32_t)p->dh,
    };
    strips(&v);
}
