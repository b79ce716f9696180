/* Y = the maximum of each window of X; positions outside the box are padding. */
#ifndef MAX_POOL_H
#define MAX_POOL_H

#include "pool_f32.h"

/* Defines the kernel `symbol` over elements of a type, of which `lowest` is above none. */
#define MAX_POOL(symbol, type, lowest)                                                                                \
    void symbol(const void *args) {                                                                                   \
        const symbol##_args_t *p = args;                                                                              \
        const share_t share = share_of(p->c * p->h);                                                                  \
        const uint32_t next_row = p->dilation_h * p->x_r, next_column = p->dilation_w;                                \
        for (uint32_t i = share.begin; i < share.end; i++) {                                                          \
            const uint32_t c = i / p->h, h = i - c * p->h;                                                            \
            const int32_t row = p->top + (int32_t)(h * p->stride_h);                                                  \
            const share_t rows = taps_inside(row, p->kernel_h, p->dilation_h, p->x_h);                                \
            const type *x = p->x + c * p->x_c + row * (int32_t)p->x_r + (int32_t)(rows.begin * next_row);             \
            type *y = p->y + c * p->y_c + h * p->y_r;                                                                 \
            int32_t column = p->left;                                                                                 \
            for (uint32_t w = 0; w < p->w; w++, column += (int32_t)p->stride_w) {                                     \
                const share_t columns = taps_inside(column, p->kernel_w, p->dilation_w, p->x_w);                      \
                const type *line = x + column + (int32_t)(columns.begin * next_column);                               \
                type max = lowest;                                                                                    \
                for (uint32_t a = rows.begin; a < rows.end; a++, line += next_row) {                                  \
                    const type *at = line;                                                                            \
                    for (uint32_t b = columns.begin; b < columns.end; b++, at += next_column)                         \
                        max = *at > max ? *at : max;                                                                  \
                }                                                                                                     \
                y[w] = max;                                                                                           \
            }                                                                                                         \
        }                                                                                                             \
    }

#endif
