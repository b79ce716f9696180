/* Y = X * W + B with groups; the portable kernel defines the bits: each output sums channels, kernel rows and kernel
 * columns in blocks of whole channels, to what waits in Y, skips taps in padding, adds the bias, then does Relu. */
#include "conv_f32.h"
#define CONV_APART 1
#include "conv.h"
#include "conv_first.h"
#include "conv_matrix.h"
#include "conv_planes.h"
#include "conv_pointwise.h"

static inline axis_t axis_of(uint32_t count, int32_t at, uint32_t stride, uint32_t taps, uint32_t dilation,
                             uint32_t length) {
    axis_t axis = {.first = 0, .step = 1, .count = count, .taps = taps, .tap = 0, .tap_step = 1, .length = length};
    axis.at = at, axis.move = (int32_t)stride, axis.apart = (int32_t)dilation;
    find_inside(&axis);
    return axis;
}

static __attribute__((noinline)) void windows(const conv_f32_args_t *p) {
    if (p->m * p->c == 1 && p->first && p->last && p->kh == 3 && p->kw == 3 && p->sw * p->dw == 1 &&
        makes_strips(p->ow, p->left, p->x_cols)) {
        const strips_t v = {
            .x = p->x, .w = p->w, .b = p->b, .gate = 0, .y = p->y, .images = p->n, .groups = p->g, .rows = p->oh,
            .columns = p->ow, .x_rows = p->x_rows, .x_columns = p->x_cols, .x_n = p->x_n, .x_g = p->x_g, .x_h = p->x_h,
            .w_g = p->w_g, .w_h = 3, .b_g = p->b_g, .y_n = p->y_n, .y_g = p->y_g, .y_h = p->y_h, .relu = p->relu,
            .gate_n = 0, .gate_g = 0, .gate_h = 0, .top = p->top, .left = p->left, .move = (int32_t)p->sh,
            .apart = (int32_t)p->dh,
        };
        strips(&v);
        return;
    }
    const int one_tap = p->kh * p->kw * p->sh * p->sw == 1 && p->x_rows == p->oh && p->x_cols == p->ow &&
                        p->x_h == p->ow && p->y_h == p->ow;
    if (one_tap && is_matrix(p->n, p->g, p->m, p->oh * p->ow)) {
        const matrices_t v = {
            .a = p->w, .b = p->x, .c = p->b, .gate = 0, .y = p->y, .batch = p->n * p->g, .m = p->m, .n = p->oh * p->ow,
            .k = p->c, .a_b = p->g > 1 ? p->w_g : 0, .a_m = p->w_m, .a_k = p->w_c, .b_b = p->g > 1 ? p->x_g : p->x_n,
            .b_k = p->x_c, .b_n = 1, .c_b = p->g > 1 ? p->b_g : 0, .c_m = 1, .c_n = 0, .y_b = p->g > 1 ? p->y_g : p->y_n,
            .y_m = p->y_m, .gate_b = 0, .gate_m = 0, .relu = p->relu, .first = p->first, .last = p->last,
            .single = p->single, .alpha = LITERAL_F32(1.0f), .beta = LITERAL_F32(1.0f),
        };
        matrix_blocks(&v);
        return;
    }
    const conv_t v = {
        .x = p->x, .w = p->w, .b = p->last ? p->b : 0, .y = p->y, .n = p->n, .g = p->g, .m = p->m, .c = p->c,
        .first = p->first, .single = p->single, .relu = p->last && p->relu,
        .together = products_block(p->c, p->kh * p->kw), .x_n = p->x_n, .x_g = p->x_g, .x_c = p->x_c, .x_h = p->x_h,
        .w_g = p->w_g, .w_m = p->w_m, .w_c = p->w_c, .w_h = p->kw, .b_g = p->b_g, .y_n = p->y_n, .y_g = p->y_g,
        .y_m = p->y_m, .y_h = p->y_h, .gate = 0, .gate_n = 0, .gate_g = 0, .gate_m = 0, .gate_h = 0, .gate_alike = 0,
    };
    if (one_tap) {
        one_row(&v, p->oh * p->ow);
        return;
    }
    const axis_t rows = axis_of(p->oh, p->top, p->sh, p->kh, p->dh, p->x_rows);
    const axis_t columns = axis_of(p->ow, p->left, p->sw, p->kw, p->dw, p->x_cols);
    plane(&v, &rows, &columns, hal_core_id());
}

/* What every call fetches is this alone. */
void conv_f32(const void *args) {
    const conv_f32_args_t *p = args;
    if (makes_planes(p))
        planes(p);
    else if (is_pointwise(p))
        pointwise(p);
    else if (is_first(p))
        first_layer(p);
    else
        windows(p);
}
