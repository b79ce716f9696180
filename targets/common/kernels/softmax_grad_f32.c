/* dX = Y (dY - sum(dY Y)) over the classes of each row, summed ascending. */
#include "softmax_grad_f32.h"
#include "hal.h"

void softmax_grad_f32(const void *args) {
    const softmax_grad_f32_args_t *p = args;
    const uint32_t rows = p->outer * p->inner;
    for (uint32_t i = hal_core_id(); i < rows; i += hal_core_count()) {
        const uint32_t outer = i / p->inner, inner = i % p->inner;
        const float *dy = p->dy + outer * p->dy_o + inner, *y = p->y + outer * p->y_o + inner;
        float *dx = p->dx + outer * p->dx_o + inner, sum = 0.0f;
        for (uint32_t c = 0; c < p->classes; c++) sum = __builtin_fmaf(dy[c * p->dy_c], y[c * p->y_c], sum);
        for (uint32_t c = 0; c < p->classes; c++) dx[c * p->dx_c] = y[c * p->y_c] * (dy[c * p->dy_c] - sum);
    }
}
