/* dX = 0, then each window, in ascending order, adds its dY to its first maximum of X. */
#include "max_pool_grad_f32.h"
#include "pool_f32.h"

void max_pool_grad_f32(const void *args) {
    const max_pool_grad_f32_args_t *p = args;
    const share_t share = share_of(p->c);
    const uint32_t next_row = p->dilation_h * p->x_w, next_column = p->dilation_w, size = p->x_h * p->x_w;
    for (uint32_t c = share.begin; c < share.end; c++) {
        const float *dy = p->dy + c * p->y_h * p->y_w, *x = p->x + c * size;
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
                uint32_t line = first + (uint32_t)(column + (int32_t)(columns.begin * next_column)), best = line;
                float max = x[best];
                for (uint32_t a = rows.begin; a < rows.end; a++, line += next_row) {
                    uint32_t at = line;
                    for (uint32_t b = columns.begin; b < columns.end; b++, at += next_column)
                        if (x[at] > max) max = x[at], best = at;
                }
                dx[best] += *dy++;
            }
        }
    }
}
