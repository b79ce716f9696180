/* y = x - max - log(sum(exp(x - max))) over the classes of each row, in the order of sum_f32.h. */
#include "log_softmax_f32.h"
#include "hal.h"
#include "row_powers.h"

void log_softmax_f32(const void *args) {
    const log_softmax_f32_args_t *p = args;
    const uint32_t rows = p->outer * p->inner, classes = p->classes, x_c = p->x_c;
    for (uint32_t i = hal_core_id(); i < rows; i += hal_core_count()) {
        const uint32_t outer = p->inner > 1 ? i / p->inner : i, inner = i - outer * p->inner;
        const float *const x = p->x + outer * p->x_o + inner;
        float *const y = p->y + outer * p->y_o + inner;
        const float max = largest_of(x, x_c, classes), sum = powers_of(y, p->y_c, x, x_c, classes, max).sum;
        subtract(y, p->y_c, x, x_c, classes, max, log_of_sum(sum));
    }
}
