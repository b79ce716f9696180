/* y = sum((pred - target)^2) / count, summed ascending by fmaf on one core; between tiles the raw sum waits in y. */
#include "hal.h"
#include "mse_loss_f32.h"

void mse_loss_f32(const void *args) {
    const mse_loss_f32_args_t *p = args;
    if (hal_core_id() != 0) return;
    float sum = p->first ? 0.0f : *p->y;
    for (uint32_t i = 0; i < p->n; i++) {
        const float difference = p->pred[i] - p->target[i];
        sum = __builtin_fmaf(difference, difference, sum);
    }
    *p->y = p->last ? sum / p->count : sum;
}
