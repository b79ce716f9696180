/* y = x - max - log(sum(exp(x - max))) over the classes of each row, in the order of sum_f32.h. Where no power of a row is
 * subnormal or 0 there is nothing to compare in its loops. */
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

/* The sum of powers of any row. */
static __attribute__((noinline)) float any(const log_softmax_f32_args_t *p, const float *x, float max) {
    const uint32_t size = p->classes > SUM_BLOCK ? SUM_BLOCK : 0;
    sum_t powers = {0};
    for (uint32_t c = 0; c < p->classes;)
        for (const uint32_t end = c + sum_next(&powers, size, c, p->classes - c); c < end; c++, x += p->x_c)
            powers.block += expf_f32(*x - max);
    return sum_value(&powers, size);
}

void log_softmax_f32(const void *args) {
    const log_softmax_f32_args_t *p = args;
    const uint32_t rows = p->outer * p->inner, classes = p->classes, x_c = p->x_c;
    for (uint32_t i = hal_core_id(); i < rows; i += hal_core_count()) {
        const uint32_t outer = p->inner > 1 ? i / p->inner : i, inner = i - outer * p->inner;
        const float *const x = p->x + outer * p->x_o + inner;
        const bounds_t bounds = bounds_of(x, x_c, classes);
        const float max = bounds.high;
        const float sum = __builtin_expect(powers_are_normal(bounds), 1) ? sum_of_powers(0, 0, 0, x, x_c, classes, max)
                                                                        : any(p, x, max);
        subtract(p->y + outer * p->y_o + inner, p->y_c, x, x_c, classes, max, logf_f32(sum));
    }
}
