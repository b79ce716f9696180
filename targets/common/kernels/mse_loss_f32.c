/* y = sum((pred - target)^2) / count, summed by fmaf on one core in the order of sum_f32.h; between tiles the sum waits in
 * y. Where dpred is not null, the other cores make it meanwhile: share (pred - target). */
#include "hal.h"
#include "mse_loss_f32.h"
#include "sum_f32.h"

void mse_loss_f32(const void *args) {
    const mse_loss_f32_args_t *p = args;
    const uint32_t size = sum_size(p->carry), others = hal_core_count() - 1, id = hal_core_id();
    if (p->dpred && (id > 0 || others == 0))
        for (uint32_t i = others ? id - 1 : 0; i < p->n; i += others ? others : 1)
            p->dpred[i] = p->share * (p->pred[i] - p->target[i]);
    if (id != 0) return;
    sum_t sum = sum_begin(p->first, size, *p->y, p->carry);
    for (uint32_t i = 0; i < p->n;)
        for (const uint32_t end = i + sum_next(&sum, size, p->start + i, p->n - i); i < end; i++) {
            const float difference = p->pred[i] - p->target[i];
            sum.block = __builtin_fmaf(difference, difference, sum.block);
        }
    if (p->last) {
        *p->y = sum_value(&sum, size) / p->count;
        sum_end(size, p->carry);
    } else
        *p->y = sum_wait(&sum, size, p->start + p->n, p->carry);
}
