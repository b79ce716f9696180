/* Y = X where X > 0, NaN stays NaN, else 0. */
#include "relu_f32.h"
#include "activation_f32.h"
#include "hal.h"

void relu_f32(const void *args) {
    const relu_f32_args_t *p = args;
    for (uint32_t i = hal_core_id(); i < p->n; i += hal_core_count()) p->y[i] = relu_f32_of(p->x[i]);
}
