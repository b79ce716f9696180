/* Losses that are a sum over all elements, divided by a count, in the order of sum_f32.h; between tiles the sum waits in y. One
 * core sums, and the other cores make the gradient meanwhile, where dpred is not null. */
#ifndef MEAN_LOSS_F32_H
#define MEAN_LOSS_F32_H

#include "hal.h"
#include "sum_f32.h"

/* Defines the kernel `symbol`; `term` and `slope` are static inline functions of the arguments, a prediction and its target. The
 * gradient is `share` times the slope. */
#define MEAN_LOSS_F32(symbol, term, slope)                                                                            \
    void symbol(const void *args) {                                                                                   \
        const symbol##_args_t *p = args;                                                                              \
        const uint32_t size = sum_size(p->carry), others = hal_core_count() - 1, id = hal_core_id();                  \
        if (p->dpred && (id > 0 || others == 0))                                                                      \
            for (uint32_t i = others ? id - 1 : 0; i < p->n; i += others ? others : 1)                                \
                p->dpred[i] = p->share * slope(p, p->pred[i], p->target[i]);                                          \
        if (id != 0) return;                                                                                          \
        sum_t sum = sum_begin(p->first, size, *p->y, p->carry);                                                       \
        for (uint32_t i = 0; i < p->n;)                                                                               \
            for (const uint32_t end = i + sum_next(&sum, size, p->start + i, p->n - i); i < end; i++)                 \
                sum.block += term(p, p->pred[i], p->target[i]);                                                       \
        if (p->last) {                                                                                                \
            *p->y = sum_value(&sum, size) / p->count;                                                                 \
            sum_end(size, p->carry);                                                                                  \
        } else                                                                                                        \
            *p->y = sum_wait(&sum, size, p->start + p->n, p->carry);                                                  \
    }

/* Defines the kernel of a gradient: `scale` times the slope of the term along the prediction. */
#define MEAN_LOSS_GRAD_F32(symbol, slope)                                                                             \
    void symbol(const void *args) {                                                                                   \
        const symbol##_args_t *p = args;                                                                              \
        for (uint32_t i = hal_core_id(); i < p->n; i += hal_core_count())                                             \
            p->dpred[i] = p->scale * slope(p, p->pred[i], p->target[i]);                                              \
    }

#endif
