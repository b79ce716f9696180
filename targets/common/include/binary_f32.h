/* Y = f(A, B) under numpy broadcasting: up to four loops, n3 innermost, with element strides per operand. A stride of 0
 * repeats an element. Each element is computed by itself, so tiles and cores do not touch the bits. */
#ifndef BINARY_F32_H
#define BINARY_F32_H

#include "hal.h"
#include "share_f32.h"

/* Neighbouring elements on both sides; a target's kernel may define its own loop before it includes this. */
#ifndef BINARY_UNIT_F32
#define BINARY_UNIT_F32(f, y, a, b, count)                                                                            \
    for (uint32_t j = 0; j < (count); j++) (y)[j] = f((a)[j], (b)[j])
#endif

/* The same where an operand is repeated, or its elements lie apart. */
#ifndef BINARY_STRIDED_F32
#define BINARY_STRIDED_F32(f, y, a, a_next, b, b_next, count)                                                         \
    for (uint32_t j = 0; j < (count); j++) (y)[j] = f((a)[j * (a_next)], (b)[j * (b_next)])
#endif

/* 1 where both are equal, else 0. */
static inline float equal_mask(float a, float b) { return a == b ? 1.0f : 0.0f; }

/* Defines the kernel `symbol`; `f` is a static inline function of two floats. */
#define BINARY_F32(symbol, f)                                                                                         \
    BINARY_RUN_F32(symbol, f)                                                                                         \
    void symbol(const void *args) {                                                                                   \
        symbol##_run(args);                                                                                           \
    }

/* The same as a function for a kernel that does more. A single loop needs no divisions. */
#define BINARY_RUN_F32(symbol, f)                                                                                     \
    BINARY_LOOPS_F32(symbol, f)                                                                                       \
    static inline void symbol##_run(const symbol##_args_t *p) {                                                       \
        if (p->n0 * p->n1 * p->n2 != 1 || p->a3 != 1 || p->b3 != 1) {                                                 \
            symbol##_loops(p);                                                                                        \
            return;                                                                                                   \
        }                                                                                                             \
        const share_t share = share_of(p->n3);                                                                        \
        BINARY_UNIT_F32(f, p->y + share.begin, p->a + share.begin, p->b + share.begin, share.end - share.begin);      \
    }

#define BINARY_LOOPS_F32(symbol, f)                                                                                   \
    __attribute__((noinline)) static void symbol##_loops(const symbol##_args_t *p) {                                  \
        const share_t share = share_of(p->n0 * p->n1 * p->n2 * p->n3);                                                \
        const uint32_t line = share.begin / p->n3, i01 = line / p->n2;                                                \
        const uint32_t n2 = p->n2, a2 = p->a2, b2 = p->b2, y2 = p->y2, a3 = p->a3, b3 = p->b3;                        \
        uint32_t i3 = share.begin - line * p->n3, i2 = line - i01 * n2, left = share.end - share.begin;               \
        uint32_t i0 = i01 / p->n1, i1 = i01 - i0 * p->n1;                                                             \
        while (left > 0) {                                                                                            \
            const float *a = p->a + i0 * p->a0 + i1 * p->a1 + i2 * a2, *b = p->b + i0 * p->b0 + i1 * p->b1 + i2 * b2; \
            float *y = p->y + i0 * p->y0 + i1 * p->y1 + i2 * y2;                                                      \
            for (uint32_t run; i2 < n2 && left > 0; i2++, i3 = 0, left -= run, a += a2, b += b2, y += y2) {           \
                run = hal_min(p->n3 - i3, left);                                                                      \
                if (a3 == 1 && b3 == 1)                                                                               \
                    BINARY_UNIT_F32(f, y + i3 * p->y3, a + i3, b + i3, run);                                          \
                else                                                                                                  \
                    BINARY_STRIDED_F32(f, y + i3 * p->y3, a + i3 * a3, a3, b + i3 * b3, b3, run);                     \
            }                                                                                                         \
            i2 = 0;                                                                                                   \
            if (++i1 == p->n1) i1 = 0, i0++;                                                                          \
        }                                                                                                             \
    }

#endif
