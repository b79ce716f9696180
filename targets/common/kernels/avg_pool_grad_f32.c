/* dX = 0, then each window, in ascending order, adds its dY times one over its count to its elements. */
#include "avg_pool_grad_f32.h"
#include "pool_f32.h"

void avg_pool_grad_f32(const void *args) {
    const avg_pool_grad_f32_args_t *p = args;
    const share_t share = share_of(p->c);
    const uint32_t next_row = p->dilation_h * p->x_w, next_column = p->dilation_w, size = p->x_h * p->x_w;
    uint32_t count = p->kernel_h * p->kernel_w;
    float inverse = 1.0f / (float)count;
    for (uint32_t c = share.begin; c < share.end; c++) {
        const float *dy = p->dy + c * p->y_h * p->y_w;
        float *dx = p->dx + c * size;
        for (uint32_t i = 0; i < size; i++) {
            dx[i] = 0.0f;
            __asm__ volatile(""); /* or a compiler calls memset, which is not there */
        }
        int32_t row = p->top;
        for (uint32_t h = 0; h < p->y_h; h++, row += (int32_t)p->stride_h) {
            const share_t rows = taps_inside(row, p->kernel_h, p->dilation_h, p->x_h);
            const uint32_t first = (uint32_t)(row + (int32_t)(rows.begin * p->dilation_h)) * p->x_w;
            int32_t column = p->left;
            for (uint32_t w = 0; w < p->y_w; w++, column += (int32_t)p->stride_w) {
                const share_t columns = taps_inside(column, p->kernel_w, p->dilation_w, p->x_w);
                const uint32_t inside = (rows.end - rows.begin) * (columns.end - columns.begin);
                if (!p->include_pad && inside != count) count = inside, inverse = 1.0f / (float)count;
                const float value = *dy++ * inverse;
                float *line = dx + first + (uint32_t)(column + (int32_t)(columns.begin * next_column));
                for (uint32_t a = rows.begin; a < rows.end; a++, line += next_row) {
                    float *at = line;
                    for (uint32_t b = columns.begin; b < columns.end; b++, at += next_column) *at += value;
                }
            }
        }
    }
}
