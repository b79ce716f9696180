/* A copy of four loops, n3 innermost, with element strides on both sides; a stride of 0 repeats an element. */
#ifndef COPY_F32_H
#define COPY_F32_H

#include "lines_f32.h"
#include "share_f32.h"

/* Defines the kernel `symbol`. */
#define COPY_F32(symbol)                                                                                              \
    COPY_RUN_F32(symbol)                                                                                              \
    void symbol(const void *args) {                                                                                   \
        symbol##_run(args);                                                                                           \
    }

/* The same as a function for a kernel that does more. A share begins and ends anywhere; between, whole lines are copied
 * together. Lines are counted, because a division takes as long as a short one. */
#define COPY_RUN_F32(symbol)                                                                                          \
    static inline void symbol##_run(const symbol##_args_t *p) {                                                       \
        const share_t share = share_of(p->n0 * p->n1 * p->n2 * p->n3);                                                \
        const uint32_t line = share.begin / p->n3, i01 = line / p->n2;                                                \
        uint32_t i3 = share.begin - line * p->n3, i2 = line - i01 * p->n2, left = share.end - share.begin;            \
        uint32_t i0 = i01 / p->n1, i1 = i01 - i0 * p->n1;                                                             \
        const uint32_t plane = p->n2 * p->n3;                                                                         \
        while (left > 0) {                                                                                            \
            const float *x = p->x + i0 * p->x0 + i1 * p->x1 + i2 * p->x2 + i3 * p->x3;                                \
            float *y = p->y + i0 * p->y0 + i1 * p->y1 + i2 * p->y2 + i3 * p->y3;                                      \
            if (i3 == 0 && left >= p->n3) {                                                                           \
                const uint32_t lines = i2 == 0 && left >= plane ? p->n2 : hal_min(p->n2 - i2, left / p->n3);          \
                copy_lines_f32(y, p->y2, x, p->x2, lines, p->x3, p->n3);                                              \
                i2 += lines;                                                                                          \
                left -= lines * p->n3;                                                                                \
            } else {                                                                                                  \
                const uint32_t run = hal_min(p->n3 - i3, left);                                                       \
                copy_line_f32(y, x, p->x3, run);                                                                      \
                i2++;                                                                                                 \
                left -= run;                                                                                          \
                i3 = 0;                                                                                               \
            }                                                                                                         \
            if (i2 < p->n2) continue;                                                                                 \
            i2 = 0;                                                                                                   \
            if (++i1 == p->n1) i1 = 0, i0++;                                                                          \
        }                                                                                                             \
    }

#endif
