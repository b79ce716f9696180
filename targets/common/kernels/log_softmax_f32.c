/* y = x - max - log(sum(exp(x - max))) over the classes of each row, in the order of sum_f32.h. */
#include "log_softmax_f32.h"
#include "hal.h"
#include "log_sum_f32.h"

void log_softmax_f32(const void *args) {
    const log_softmax_f32_args_t *p = args;
    const uint32_t rows = p->outer * p->inner;
    for (uint32_t i = hal_core_id(); i < rows; i += hal_core_count()) {
        const float *x = p->x + i / p->inner * p->x_o + i % p->inner;
        float *y = p->y + i / p->inner * p->y_o + i % p->inner;
        float max;
        const float log_sum = log_sum_f32(x, p->x_c, p->classes, &max);
        for (uint32_t c = 0; c < p->classes; c++) y[c * p->y_c] = x[c * p->x_c] - max - log_sum;
    }
}
