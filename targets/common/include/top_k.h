/* The k largest elements of each line, or the smallest, in order: an element goes before those in the list that it beats,
 * so of equal ones the first stays first. */
#ifndef TOP_K_H
#define TOP_K_H

#include "hal.h"
#include "share_f32.h"

/* Defines the kernel `symbol` over elements of a type; `beats` says whether one goes before another. */
#define TOP_K(symbol, type, beats)                                                                                    \
    void symbol(const void *args) {                                                                                   \
        const symbol##_args_t *p = args;                                                                              \
        const share_t share = share_of(p->o * p->i);                                                                  \
        for (uint32_t at = share.begin; at < share.end; at++) {                                                       \
            const uint32_t o = at / p->i, i = at - o * p->i;                                                          \
            const type *x = p->x + o * p->x_o + i;                                                                    \
            type *y = p->y + o * p->y_o + i;                                                                          \
            int32_t *ids = p->ids ? p->ids + o * p->ids_o + i : 0;                                                    \
            for (uint32_t n = 0; n < p->n; n++) {                                                                     \
                const type value = x[n * p->x_n];                                                                     \
                uint32_t k = n < p->k ? n : p->k;                                                                     \
                if (k == p->k && !beats(value, y[(k - 1) * p->y_n], p->largest)) continue;                            \
                if (k == p->k) k--;                                                                                   \
                for (; k > 0 && beats(value, y[(k - 1) * p->y_n], p->largest); k--) {                                 \
                    y[k * p->y_n] = y[(k - 1) * p->y_n];                                                              \
                    if (ids) ids[k * p->ids_n] = ids[(k - 1) * p->ids_n];                                             \
                }                                                                                                     \
                y[k * p->y_n] = value;                                                                                \
                if (ids) ids[k * p->ids_n] = (int32_t)n;                                                              \
            }                                                                                                         \
        }                                                                                                             \
    }

#endif
