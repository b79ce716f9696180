/* dX = 0, then each window, in ascending order, adds its dY to its first maximum of X, where that is in the tile. X
 * holds all of every window that holds an element of the tile. */
#include "max_pool_grad_f32.h"
#include "pool_f32.h"

/* Where element `at` of X lies in `height` rows of dX whose first is row `first` of X; `height` rows on if outside. */
static inline uint32_t place_of(const max_pool_grad_f32_args_t *p, uint32_t at, uint32_t first, uint32_t height) {
    const uint32_t x_row = at / p->x_r, row = x_row - first, column = at - x_row * p->x_r - (uint32_t)p->x_left;
    return row < height && column < p->w ? row * p->dx_r + column : height * p->dx_r;
}

/* All windows of a channel into `height` rows of dX from `row` on. Where the tile has all columns of X, an index of a
 * row of X is one of dX less a constant of the row. */
static void add_windows(const max_pool_grad_f32_args_t *p, const float *dy, const float *x, float *dx, uint32_t row,
                        uint32_t height) {
    const uint32_t next_row = p->dilation_h * p->x_r, next_column = p->dilation_w, end = height * p->dx_r;
    const uint32_t all_columns = p->x_left == 0 && p->x_w <= p->w;
    const uint32_t next_shift = all_columns ? p->dilation_h * (p->dx_r - p->x_r) : 0;
    int32_t above = -p->top;
    for (uint32_t h = 0; h < p->y_h; h++, dy += p->dy_r, above += (int32_t)p->stride_h) {
        const share_t held = taps_inside(above - (int32_t)row, p->kernel_h, p->dilation_h, height);
        if (held.begin == held.end) continue;
        const share_t rows = taps_inside(above + p->x_top, p->kernel_h, p->dilation_h, p->x_h);
        const uint32_t to_row = (uint32_t)(above + (int32_t)(rows.begin * p->dilation_h)) - row;
        const uint32_t x_row = (to_row + row + (uint32_t)p->x_top) * p->x_r;
        const uint32_t first_shift = all_columns ? to_row * p->dx_r - x_row : 0;
        int32_t column = p->x_left - p->left;
        for (uint32_t w = 0; w < p->y_w; w++, column += (int32_t)p->stride_w) {
            const share_t columns = taps_inside(column, p->kernel_w, p->dilation_w, p->x_w);
            uint32_t line = x_row + (uint32_t)(column + (int32_t)(columns.begin * next_column)), shift = first_shift;
            uint32_t best = line + shift;
            float max = x[line];
            for (uint32_t a = rows.begin; a < rows.end; a++, line += next_row, shift += next_shift) {
                uint32_t at = line;
                for (uint32_t b = columns.begin; b < columns.end; b++, at += next_column)
                    if (x[at] > max) max = x[at], best = at + shift;
            }
            if (!all_columns) best = place_of(p, best, (uint32_t)p->x_top + row, height);
            if (best < end) dx[best] += dy[w];
        }
    }
}

void max_pool_grad_f32(const void *args) {
    const max_pool_grad_f32_args_t *p = args;
    const share_t share = share_of(p->c * p->h);
    for (uint32_t i = share.begin, rows; i < share.end; i += rows) {
        const uint32_t c = i / p->h, row = i - c * p->h;
        rows = rows_from(row, p->h, share.end - i);
        float *dx = p->dx + c * p->dx_c + row * p->dx_r;
        clear_rows(dx, rows, p->w, p->dx_r);
        add_windows(p, p->dy + c * p->dy_c, p->x + c * p->x_c, dx, row, rows);
    }
}
