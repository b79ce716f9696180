/* dX = 0, then each window, in ascending order, adds its dY times one over its count to its elements in the tile; where the
 * gate, Y of a Relu, is not above zero dX becomes zero in the end. */
#include "avg_pool_grad_f32.h"
#include "activation_f32.h"
#include "pool_f32.h"

/* All windows of a channel into `height` rows of dX from `row` on. */
static void add_windows(const avg_pool_grad_f32_args_t *p, const float *dy, float *dx, uint32_t row, uint32_t height) {
    const uint32_t next_row = p->dilation_h * p->dx_r, next_column = p->dilation_w;
    uint32_t count = p->kernel_h * p->kernel_w;
    float inverse = 1.0f / (float)count;
    const int part = p->w < p->width;
    for (uint32_t h = 0; h < p->y_h; h++, dy += p->dy_r) {
        const int32_t above = (int32_t)(h * p->stride_h) - p->top, to = above - (int32_t)row;
        const share_t rows = taps_inside(to, p->kernel_h, p->dilation_h, height);
        if (rows.begin == rows.end) continue;
        const share_t all_rows = taps_inside(above + (int32_t)p->row, p->kernel_h, p->dilation_h, p->height);
        float *first = dx + (uint32_t)(to + (int32_t)(rows.begin * p->dilation_h)) * p->dx_r;
        for (uint32_t w = 0; w < p->y_w; w++) {
            const int32_t before = (int32_t)(w * p->stride_w) - p->left, from = before + (int32_t)p->column;
            const share_t columns = taps_inside(before, p->kernel_w, p->dilation_w, p->w);
            const share_t all_columns = part ? taps_inside(from, p->kernel_w, p->dilation_w, p->width) : columns;
            const uint32_t inside = (all_rows.end - all_rows.begin) * (all_columns.end - all_columns.begin);
            if (!p->include_pad && inside != count) count = inside, inverse = 1.0f / (float)count;
            const float value = dy[w] * inverse;
            float *line = first + before + (int32_t)(columns.begin * next_column);
            for (uint32_t a = rows.begin; a < rows.end; a++, line += next_row) {
                float *at = line;
                for (uint32_t b = columns.begin; b < columns.end; b++, at += next_column) *at += value;
            }
        }
    }
}

void avg_pool_grad_f32(const void *args) {
    const avg_pool_grad_f32_args_t *p = args;
    const share_t share = share_of(p->c * p->h);
    for (uint32_t i = share.begin, rows; i < share.end; i += rows) {
        const uint32_t c = i / p->h, row = i - c * p->h;
        rows = rows_from(row, p->h, share.end - i);
        float *dx = p->dx + c * p->dx_c + row * p->dx_r;
        clear_rows(dx, rows, p->w, p->dx_r);
        add_windows(p, p->dy + c * p->dy_c, dx, row, rows);
        if (!p->gate) continue;
        const float *gate = p->gate + c * p->gate_c + row * p->gate_r;
        for (uint32_t r = 0; r < rows; r++, gate += p->gate_r, dx += p->dx_r)
            for (uint32_t w = 0; w < p->w; w++) dx[w] = gated_f32(dx[w], gate[w]);
    }
}
