/* y = exp(x - max) / sum(exp(x - max)) over the classes of each row, in the order of sum_f32.h. */
#include "softmax_f32.h"
#include "hal.h"
#include "row_shares.h"

void softmax_f32(const void *args) {
    const softmax_f32_args_t *p = args;
    const uint32_t rows = p->outer * p->inner, classes = p->classes, x_c = p->x_c, y_c = p->y_c;
    for (uint32_t i = hal_core_id(); i < rows; i += hal_core_count()) {
        const uint32_t outer = p->inner > 1 ? i / p->inner : i, inner = i - outer * p->inner;
        const float *const x = p->x + outer * p->x_o + inner;
        float *const y = p->y + outer * p->y_o + inner;
        shares_of(y, y_c, x, x_c, classes, largest_of(x, x_c, classes));
    }
}
