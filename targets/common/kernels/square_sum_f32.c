/* y = before + sum(x^2), summed by fmaf on one core in the order of sum_f32.h; between tiles the sum waits in y. */
#include "square_sum_f32.h"
#include "hal.h"
#include "sum_f32.h"

void square_sum_f32(const void *args) {
    const square_sum_f32_args_t *p = args;
    const uint32_t size = sum_size(p->carry);
    if (hal_core_id() != 0) return;
    sum_t sum = sum_begin(p->first, size, *p->y, p->carry);
    for (uint32_t i = 0; i < p->n;)
        for (const uint32_t end = i + sum_next(&sum, size, p->start + i, p->n - i); i < end; i++)
            sum.block = __builtin_fmaf(p->x[i], p->x[i], sum.block);
    if (p->last) {
        const float squares = sum_value(&sum, size);
        *p->y = p->before ? *p->before + squares : squares;
        sum_end(size, p->carry);
    } else
        *p->y = sum_wait(&sum, size, p->start + p->n, p->carry);
}
