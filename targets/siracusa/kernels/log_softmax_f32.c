/* y = x - max - log(sum(exp(x - max))) over the classes of each row, in the order of sum_f32.h. */
#include "log_softmax_f32.h"
#include "hal.h"
#include "row_powers.h"

/* y = x - max - log_sum. */
static inline void subtract(float *y, uint32_t y_step, const float *x, uint32_t x_step, uint32_t count, float max,
                            float log_sum) {
    __asm__ volatile(LOOP("%[count]", 6)
                     FLW("ft0", "%[x]", 0) ADD("%[x]", "%[x_step]") "fsub.s ft0, ft0, %[max]\n fsub.s ft0, ft0, %[log]\n"
                     FSW("ft0", "%[y]", 0) ADD("%[y]", "%[y_step]") LOOP_END(6)
                     : [x] "+&r"(x), [y] "+&r"(y)
                     : [max] "f"(max), [log] "f"(log_sum), [x_step] "r"(4 * x_step), [y_step] "r"(4 * y_step),
                       [count] "r"(count)
                     : "ft0", "memory");
}

void log_softmax_f32(const void *args) {
    const log_softmax_f32_args_t *p = args;
    const uint32_t rows = p->outer * p->inner, classes = p->classes, x_c = p->x_c;
    for (uint32_t i = hal_core_id(); i < rows; i += hal_core_count()) {
        const uint32_t outer = p->inner > 1 ? i / p->inner : i, inner = i - outer * p->inner;
        const float *const x = p->x + outer * p->x_o + inner;
        const float max = largest_of(x, x_c, classes), sum = powers_of(0, 0, 0, x, x_c, classes, max).sum;
        subtract(p->y + outer * p->y_o + inner, p->y_c, x, x_c, classes, max, logf_f32(sum));
    }
}
