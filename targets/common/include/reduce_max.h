/* Y = maximum of X over the loops r0..r2, for each index of k0..k2. Between tiles the maximum so far waits in Y. */
#ifndef REDUCE_MAX_H
#define REDUCE_MAX_H

#include "hal.h"
#include "share_f32.h"

/* Defines the kernel `symbol` over elements of a type; `exceeds` says whether a value takes the place of a maximum. */
#define REDUCE_MAX(symbol, type, exceeds)                                                                             \
    void symbol(const void *args) {                                                                                   \
        const symbol##_args_t *p = args;                                                                              \
        const share_t share = share_of(p->k0 * p->k1 * p->k2);                                                        \
        for (uint32_t i = share.begin; i < share.end; i++) {                                                          \
            const uint32_t k2 = i % p->k2, k01 = i / p->k2, k1 = k01 % p->k1, k0 = k01 / p->k1;                       \
            const type *x = p->x + k0 * p->x_k0 + k1 * p->x_k1 + k2 * p->x_k2;                                        \
            type *y = p->y + k0 * p->y_k0 + k1 * p->y_k1 + k2;                                                        \
            type max = p->first ? *x : *y;                                                                            \
            for (uint32_t r0 = 0; r0 < p->r0; r0++)                                                                   \
                for (uint32_t r1 = 0; r1 < p->r1; r1++) {                                                             \
                    const type *run = x + r0 * p->x_r0 + r1 * p->x_r1;                                                \
                    for (uint32_t r2 = 0; r2 < p->r2; r2++) {                                                         \
                        const type value = run[r2 * p->x_r2];                                                         \
                        if (exceeds(value, max)) max = value;                                                         \
                    }                                                                                                 \
                }                                                                                                     \
            *y = max;                                                                                                 \
        }                                                                                                             \
    }

#endif
