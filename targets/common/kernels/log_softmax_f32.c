/* y = x - max - log(sum(exp(x - max))) over the classes of each row, in the order of sum_f32.h. */
#include "log_softmax_f32.h"
#include "hal.h"
#include "math_f32.h"
#include "sum_f32.h"

void log_softmax_f32(const void *args) {
    const log_softmax_f32_args_t *p = args;
    const uint32_t rows = p->outer * p->inner;
    const uint32_t size = p->classes > SUM_BLOCK ? SUM_BLOCK : 0;
    for (uint32_t i = hal_core_id(); i < rows; i += hal_core_count()) {
        const float *x = p->x + i / p->inner * p->x_o + i % p->inner;
        float *y = p->y + i / p->inner * p->y_o + i % p->inner;
        float max = x[0];
        for (uint32_t c = 1; c < p->classes; c++) max = x[c * p->x_c] > max ? x[c * p->x_c] : max;
        sum_t powers = {0};
        for (uint32_t c = 0; c < p->classes;)
            for (const uint32_t end = c + sum_next(&powers, size, c, p->classes - c); c < end; c++)
                powers.block += expf_f32(x[c * p->x_c] - max);
        const float log_sum = logf_f32(sum_value(&powers, size));
        for (uint32_t c = 0; c < p->classes; c++) y[c * p->y_c] = x[c * p->x_c] - max - log_sum;
    }
}
