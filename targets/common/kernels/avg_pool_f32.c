/* Y = the mean of each window of X, summed in row-major order, times one over the count; positions outside the box are
 * padding, which counts under `include_pad`. */
#include "avg_pool_f32.h"
#include "pool_f32.h"

void avg_pool_f32(const void *args) {
    const avg_pool_f32_args_t *p = args;
    const share_t share = share_of(p->c * p->h);
    const uint32_t next_row = p->dilation_h * p->x_r, next_column = p->dilation_w;
    uint32_t count = p->kernel_h * p->kernel_w;
    float inverse = 1.0f / (float)count;
    for (uint32_t i = share.begin; i < share.end; i++) {
        const uint32_t c = i / p->h, h = i - c * p->h;
        const int32_t row = p->top + (int32_t)(h * p->stride_h);
        const share_t rows = taps_inside(row, p->kernel_h, p->dilation_h, p->x_h);
        const float *x = p->x + c * p->x_c + row * (int32_t)p->x_r + (int32_t)(rows.begin * next_row);
        float *y = p->y + c * p->y_c + h * p->y_r;
        int32_t column = p->left;
        for (uint32_t w = 0; w < p->w; w++, column += (int32_t)p->stride_w) {
            const share_t columns = taps_inside(column, p->kernel_w, p->dilation_w, p->x_w);
            const uint32_t inside = (rows.end - rows.begin) * (columns.end - columns.begin);
            const float *line = x + column + (int32_t)(columns.begin * next_column);
            float sum = 0.0f;
            for (uint32_t a = rows.begin; a < rows.end; a++, line += next_row) {
                const float *at = line;
                for (uint32_t b = columns.begin; b < columns.end; b++, at += next_column) sum += *at;
            }
            if (!p->include_pad && inside != count) count = inside, inverse = 1.0f / (float)count;
            y[w] = sum * inverse;
        }
    }
}
