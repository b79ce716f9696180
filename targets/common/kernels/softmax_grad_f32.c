/* dX = alpha Y (dY - sum(dY Y)) over the classes of each row, in the order of sum_f32.h. */
#include "softmax_grad_f32.h"
#include "hal.h"
#include "sum_f32.h"

void softmax_grad_f32(const void *args) {
    const softmax_grad_f32_args_t *p = args;
    const uint32_t rows = p->outer * p->inner;
    const uint32_t size = p->classes > SUM_BLOCK ? SUM_BLOCK : 0;
    for (uint32_t i = hal_core_id(); i < rows; i += hal_core_count()) {
        const uint32_t outer = i / p->inner, inner = i % p->inner;
        const float *dy = p->dy + outer * p->dy_o + inner, *y = p->y + outer * p->y_o + inner;
        float *dx = p->dx + outer * p->dx_o + inner;
        sum_t dot = {0};
        for (uint32_t c = 0; c < p->classes;)
            for (const uint32_t end = c + sum_next(&dot, size, c, p->classes - c); c < end; c++)
                dot.block = __builtin_fmaf(dy[c * p->dy_c], y[c * p->y_c], dot.block);
        const float sum = sum_value(&dot, size);
        for (uint32_t c = 0; c < p->classes; c++) dx[c * p->dx_c] = y[c * p->y_c] * (dy[c * p->dy_c] - sum) * p->alpha;
    }
}
