/* Y = X * W + B with groups; the portable kernel defines the bits: each output sums channels, kernel rows and kernel
 * columns ascending by fmaf from zero or from what waits in Y, skips taps in padding, and adds the bias last. */
#include "conv_f32.h"
#define CONV_APART 1
#include "conv.h"

static inline axis_t axis_of(uint32_t count, int32_t at, uint32_t stride, uint32_t taps, uint32_t dilation,
                             uint32_t length) {
    axis_t axis = {.step = 1, .count = count, .taps = taps, .tap_step = 1, .length = length};
    axis.at = at, axis.move = (int32_t)stride, axis.apart = (int32_t)dilation;
    find_inside(&axis);
    return axis;
}

void conv_f32(const void *args) {
    const conv_f32_args_t *p = args;
    const conv_t v = {
        .x = p->x, .w = p->w, .b = p->last ? p->b : 0, .y = p->y, .n = p->n, .g = p->g, .m = p->m, .c = p->c,
        .first = p->first, .x_n = p->x_n, .x_g = p->x_g, .x_c = p->x_c, .x_h = p->x_h, .w_g = p->w_g, .w_m = p->w_m,
        .w_c = p->w_c, .w_h = p->kw, .b_g = p->b_g, .y_n = p->y_n, .y_g = p->y_g, .y_m = p->y_m, .y_h = p->y_h,
    };
    axis_t rows, columns;
    if (p->kh * p->kw * p->sh * p->sw == 1 && p->x_rows == p->oh && p->x_cols == p->ow && p->x_h == p->ow &&
        p->y_h == p->ow) { /* a plane is a row */
        rows = axis_of(1, 0, 1, 1, 1, 1);
        columns = axis_of(p->oh * p->ow, 0, 1, 1, 1, p->oh * p->ow);
    } else {
        rows = axis_of(p->oh, p->top, p->sh, p->kh, p->dh, p->x_rows);
        columns = axis_of(p->ow, p->left, p->sw, p->kw, p->dw, p->x_cols);
    }
    plane(&v, &rows, &columns, hal_core_id());
}
