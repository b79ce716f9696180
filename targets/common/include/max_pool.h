/* Y = the maximum of each window of X; positions outside the box are padding. */
#ifndef MAX_POOL_H
#define MAX_POOL_H

#include "pool_f32.h"

/* Defines the kernel `symbol` over elements of a type, of which `lowest` is above none. */
#define MAX_POOL(symbol, type, lowest)                                                                                \
    MAX_POOL_RUN(symbol, type, lowest)                                                                                \
    void symbol(const void *args) {                                                                                   \
        symbol##_run(args);                                                                                           \
    }

#define MAX_POOL_F32(symbol) MAX_POOL(symbol, float, -__builtin_inff())

/* The same as a function for a kernel that does more, with one for a window: of its rows inside of X, `line` is column 0
 * of the first. Of equal elements the first is the maximum. */
#define MAX_POOL_RUN(symbol, type, lowest)                                                                            \
    static inline type symbol##_window(                                                                               \
        const symbol##_args_t *p, const type *line, uint32_t rows, uint32_t next_row, int32_t column                  \
    ) {                                                                                                               \
        const uint32_t next_column = p->dilation_w;                                                                   \
        const share_t columns = taps_inside(column, p->kernel_w, next_column, p->x_w);                                \
        type max = lowest;                                                                                            \
        line += column + (int32_t)(columns.begin * next_column);                                                      \
        for (uint32_t a = 0; a < rows; a++, line += next_row) {                                                       \
            const type *at = line;                                                                                    \
            for (uint32_t b = columns.begin; b < columns.end; b++, at += next_column) max = *at > max ? *at : max;    \
        }                                                                                                             \
        return max;                                                                                                   \
    }                                                                                                                 \
    static inline void symbol##_run(const symbol##_args_t *p) {                                                       \
        const share_t share = share_of(p->c * p->h);                                                                  \
        const uint32_t next_row = p->dilation_h * p->x_r;                                                             \
        for (uint32_t i = share.begin; i < share.end; i++) {                                                          \
            const uint32_t c = i / p->h, h = i - c * p->h;                                                            \
            const int32_t row = p->top + (int32_t)(h * p->stride_h);                                                  \
            const share_t rows = taps_inside(row, p->kernel_h, p->dilation_h, p->x_h);                                \
            const type *x = p->x + c * p->x_c + row * (int32_t)p->x_r + (int32_t)(rows.begin * next_row);             \
            type *y = p->y + c * p->y_c + h * p->y_r;                                                                 \
            int32_t column = p->left;                                                                                 \
            for (uint32_t w = 0; w < p->w; w++, column += (int32_t)p->stride_w)                                       \
                y[w] = symbol##_window(p, x, rows.end - rows.begin, next_row, column);                                \
        }                                                                                                             \
    }

#endif
