/* dpred = scale * (pred - target), with scale = 2 / numel. */
#include "hal.h"
#include "mse_loss_grad_f32.h"

void mse_loss_grad_f32(const void *args) {
    const mse_loss_grad_f32_args_t *p = args;
    for (uint32_t i = hal_core_id(); i < p->n; i += hal_core_count())
        p->dpred[i] = p->scale * (p->pred[i] - p->target[i]);
}
