/* Y = what all elements of X so far make along each line, from either end, with the element itself or without. */
#ifndef CUMULATIVE_H
#define CUMULATIVE_H

#include "hal.h"
#include "share_f32.h"

/* Defines the kernel `symbol` over elements of a type: each goes by `joined` into what is so far, `neutral` at first. */
#define CUMULATIVE(symbol, type, neutral, joined)                                                                     \
    void symbol(const void *args) {                                                                                   \
        const symbol##_args_t *p = args;                                                                              \
        const share_t share = share_of(p->o * p->i);                                                                  \
        for (uint32_t at = share.begin; at < share.end; at++) {                                                       \
            const uint32_t o = at / p->i, i = at - o * p->i;                                                          \
            const type *x = p->x + o * p->x_o + i;                                                                    \
            type *y = p->y + o * p->y_o + i, so_far = neutral;                                                        \
            for (uint32_t k = 0; k < p->n; k++) {                                                                     \
                const uint32_t n = p->reverse ? p->n - 1 - k : k;                                                     \
                const type value = x[n * p->x_n];                                                                     \
                if (p->exclusive) y[n * p->y_n] = so_far;                                                             \
                so_far = joined(so_far, value);                                                                       \
                if (!p->exclusive) y[n * p->y_n] = so_far;                                                            \
            }                                                                                                         \
        }                                                                                                             \
    }

#endif
