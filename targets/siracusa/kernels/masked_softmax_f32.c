/* y = exp(s - max) / sum(exp(s - max)) over the classes of each row of s = alpha x + mask, each rounded, in the order of
 * sum_f32.h. The mask may be absent. Of row n of a tile the softmax has the first seen + n + 1 classes. */
#include "masked_softmax_f32.h"
#include "hal.h"
#include "masked_row_f32.h"

void masked_softmax_f32(const void *args) {
    const masked_softmax_f32_args_t *p = args;
    const uint32_t rows = p->outer * p->inner, classes = p->classes;
    for (uint32_t i = hal_core_id(); i < rows; i += hal_core_count()) {
        const uint32_t o = p->outer > 1 ? i / p->inner : 0, n = i - o * p->inner;
        const float *const mask = p->mask ? p->mask + o * p->mask_o + n * p->mask_i : 0;
        masked_row(p->y + o * p->y_o + n * p->y_i, p->x + o * p->x_o + n * p->x_i, mask, classes,
                   hal_min(classes, p->seen + n + 1), p->alpha, p->safe);
    }
}
