/* What kernels of the gradient of maxima share: a row of windows, each of which adds its dY to its first maximum of X, where
 * that is in the tile. X holds all of every window that holds an element of the tile. Included behind the arguments and
 * `add_to`, which adds to an element of dX. */
#ifndef MAX_POOL_GRAD_H
#define MAX_POOL_GRAD_H

#include "pool_f32.h"

/* Where element `at` of X lies in `height` rows of dX whose first is row `first` of X; `height` rows on if outside. */
static inline uint32_t place_of(const max_pool_grad_f32_args_t *p, uint32_t at, uint32_t first, uint32_t height) {
    const uint32_t x_row = at / p->x_r, row = x_row - first, column = at - x_row * p->x_r - (uint32_t)p->x_left;
    return row < height && column < p->w ? row * p->dx_r + column : height * p->dx_r;
}

/* Windows from `begin` to before `end` of a row of them, which begins `above` rows behind the tile's first row, into `height`
 * rows of dX from `row` on. Where the tile has all columns of X, an index of a row of X is one of dX less a constant of the
 * row. Gated, a maximum that is not above zero gets nothing. */
static inline void add_windows(const max_pool_grad_f32_args_t *p, const float *dy, const float *x, float *dx, int32_t above,
                               uint32_t row, uint32_t height, uint32_t begin, uint32_t end) {
    const uint32_t next_row = p->dilation_h * p->x_r, next_column = p->dilation_w, last = height * p->dx_r;
    const uint32_t all_columns = p->x_left == 0 && p->x_w <= p->w;
    const uint32_t next_shift = all_columns ? p->dilation_h * (p->dx_r - p->x_r) : 0;
    const share_t held = taps_inside(above - (int32_t)row, p->kernel_h, p->dilation_h, height);
    if (held.begin == held.end) return;
    const share_t rows = taps_inside(above + p->x_top, p->kernel_h, p->dilation_h, p->x_h);
    const uint32_t to_row = (uint32_t)(above + (int32_t)(rows.begin * p->dilation_h)) - row;
    const uint32_t x_row = (to_row + row + (uint32_t)p->x_top) * p->x_r;
    const uint32_t first_shift = all_columns ? to_row * p->dx_r - x_row : 0;
    int32_t column = p->x_left - p->left + (int32_t)(begin * p->stride_w);
    for (uint32_t w = begin; w < end; w++, column += (int32_t)p->stride_w) {
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
        if (best < last && (!p->gated || max > 0.0f)) add_to(dx + best, dy[w]);
    }
}

#endif
