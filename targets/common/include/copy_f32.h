/* A copy of four loops, n3 innermost, with element strides on both sides; a stride of 0 repeats an element. */
#ifndef COPY_F32_H
#define COPY_F32_H

#include "lines_f32.h"
#include "share_f32.h"

/* Defines the kernel `symbol`. A share begins and ends anywhere; between, whole lines are copied together. */
#define COPY_F32(symbol)                                                                                              \
    void symbol(const void *args) {                                                                                   \
        const symbol##_args_t *p = args;                                                                              \
        const share_t share = share_of(p->n0 * p->n1 * p->n2 * p->n3);                                                \
        uint32_t line = share.begin / p->n3, i3 = share.begin - line * p->n3, left = share.end - share.begin;         \
        while (left > 0) {                                                                                            \
            const uint32_t i01 = line / p->n2, i2 = line - i01 * p->n2, i0 = i01 / p->n1, i1 = i01 - i0 * p->n1;      \
            const float *x = p->x + i0 * p->x0 + i1 * p->x1 + i2 * p->x2 + i3 * p->x3;                                \
            float *y = p->y + i0 * p->y0 + i1 * p->y1 + i2 * p->y2 + i3 * p->y3;                                      \
            if (i3 == 0 && left >= p->n3) {                                                                           \
                const uint32_t lines = hal_min(p->n2 - i2, left / p->n3);                                             \
                copy_lines_f32(y, p->y2, x, p->x2, lines, p->x3, p->n3);                                              \
                line += lines;                                                                                        \
                left -= lines * p->n3;                                                                                \
            } else {                                                                                                  \
                const uint32_t run = hal_min(p->n3 - i3, left);                                                       \
                copy_line_f32(y, x, p->x3, run);                                                                      \
                line++;                                                                                               \
                left -= run;                                                                                          \
                i3 = 0;                                                                                               \
            }                                                                                                         \
        }                                                                                                             \
    }

#endif
