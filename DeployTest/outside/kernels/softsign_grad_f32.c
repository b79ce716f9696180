/* dX = dY (1 - |Y|)^2. */
#include "softsign_grad_f32.h"
#include "hal.h"

void softsign_grad_f32(const void *args) {
    const softsign_grad_f32_args_t *p = args;
    for (uint32_t i = hal_core_id(); i < p->n; i += hal_core_count()) {
        float slope = 1.0f - __builtin_fabsf(p->y[i]);
        p->dx[i] = p->dy[i] * (slope * slope);
    }
}
