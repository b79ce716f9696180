/* y = exp(s - max) / sum(exp(s - max)) over the classes of each row of s = alpha x + mask, each rounded, in the order of
 * sum_f32.h. The mask may be absent. */
#include "masked_softmax_f32.h"
#include "hal.h"
#include "math_f32.h"
#include "sum_f32.h"

void masked_softmax_f32(const void *args) {
    const masked_softmax_f32_args_t *p = args;
    const uint32_t rows = p->outer * p->inner, size = p->classes > SUM_BLOCK ? SUM_BLOCK : 0;
    for (uint32_t i = hal_core_id(); i < rows; i += hal_core_count()) {
        const uint32_t o = i / p->inner, n = i - o * p->inner;
        const float *x = p->x + o * p->x_o + n * p->x_i;
        const float *mask = p->mask ? p->mask + o * p->mask_o + n * p->mask_i : 0;
        float *y = p->y + o * p->y_o + n * p->y_i, max = 0.0f;
        sum_t powers = {0};
        for (uint32_t c = 0; c < p->classes; c++) {
            const float scaled = x[c] * p->alpha, score = mask ? scaled + mask[c] : scaled;
            y[c] = score;
            max = c == 0 || score > max ? score : max;
        }
        for (uint32_t c = 0; c < p->classes;)
            for (const uint32_t end = c + sum_next(&powers, size, c, p->classes - c); c < end; c++) {
                y[c] = expf_f32(y[c] - max);
                powers.block += y[c];
            }
        const float sum = sum_value(&powers, size);
        for (uint32_t c = 0; c < p->classes; c++) y[c] = y[c] / sum;
    }
}
