/* dX = dY where Y > 0, else 0. */
#include "relu_grad_f32.h"
#include "activation_f32.h"
#include "hal.h"

void relu_grad_f32(const void *args) {
    const relu_grad_f32_args_t *p = args;
    for (uint32_t i = hal_core_id(); i < p->n; i += hal_core_count()) p->dx[i] = gated_f32(p->dy[i], p->y[i]);
}
