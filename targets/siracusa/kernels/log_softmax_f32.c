/* y = x - max - log(sum(exp(x - max))) over the classes of each row, in the order of sum_f32.h. */
#include "log_softmax_f32.h"
#include "hal.h"
#include "pulp.h"
#include "math_f32.h"
#include "sum_f32.h"

void log_softmax_f32(const void *args) {
    const log_softmax_f32_args_t *p = args;
    const uint32_t rows = p->outer * p->inner, step = p->x_c, y_step = p->y_c, classes = p->classes;
    const uint32_t size = classes > SUM_BLOCK ? SUM_BLOCK : 0;
    for (uint32_t i = hal_core_id(); i < rows; i += hal_core_count()) {
        const uint32_t outer = p->inner > 1 ? i / p->inner : i, inner = i - outer * p->inner;
        const float *const x = p->x + outer * p->x_o + inner, *from = x;
        float *y = p->y + outer * p->y_o + inner;
        float max = *x;
        for (uint32_t c = 1; c < classes; c++) {
            from += step;
            max = *from > max ? *from : max;
        }
        sum_t powers = {0};
        from = x;
        for (uint32_t c = 0; c < classes;)
            for (const uint32_t end = c + sum_next(&powers, size, c, classes - c); c < end; c++, from += step)
                powers.block += expf_f32(*from - max);
        const float log_sum = logf_f32(sum_value(&powers, size));
        from = x;
        for (uint32_t c = 0; c < classes; c++, from += step, y += y_step) *y = *from - max - log_sum;
    }
}
