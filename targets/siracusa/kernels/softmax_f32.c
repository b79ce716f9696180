/* y = exp(x - max) / sum(exp(x - max)) over the classes of each row, in the order of sum_f32.h. Where no power of a row is
 * subnormal or 0 there is nothing to compare in its loops. */
#include "softmax_f32.h"
#include "hal.h"
#include "quotient.h"
#include "row_powers.h"

/* y /= sum, for powers that are normal and a sum of them. */
static inline void divide(float *y, uint32_t step, uint32_t count, float sum) {
    __asm__ volatile(LOOP("%[count]", 6)
                     FLW("ft0", "%[y]", 0) "fmul.s ft1, ft0, %[inverse]\n fnmsub.s ft0, ft1, %[sum], ft0\n"
                     "fmadd.s ft1, ft0, %[inverse], ft1\n" FSW("ft1", "%[y]", 0) ADD("%[y]", "%[step]") LOOP_END(6)
                     : [y] "+&r"(y)
                     : [sum] "f"(sum), [inverse] "f"(inverse_of(sum)), [step] "r"(4 * step), [count] "r"(count)
                     : "ft0", "ft1", "memory");
}

/* Any row. */
static __attribute__((noinline)) void any(const softmax_f32_args_t *p, const float *x, float *y, float max) {
    const uint32_t size = p->classes > SUM_BLOCK ? SUM_BLOCK : 0;
    sum_t powers = {0};
    for (uint32_t c = 0; c < p->classes;)
        for (const uint32_t end = c + sum_next(&powers, size, c, p->classes - c); c < end; c++) {
            const float power = expf_f32(x[c * p->x_c] - max);
            y[c * p->y_c] = power;
            powers.block += power;
        }
    const float sum = sum_value(&powers, size);
    for (uint32_t c = 0; c < p->classes; c++, y += p->y_c)
        if (*y != 0.0f || unusual_divisor(sum)) *y = QUOTIENT_F32(*y, sum);
}

void softmax_f32(const void *args) {
    const softmax_f32_args_t *p = args;
    const uint32_t rows = p->outer * p->inner, classes = p->classes, x_c = p->x_c, y_c = p->y_c;
    for (uint32_t i = hal_core_id(); i < rows; i += hal_core_count()) {
        const uint32_t outer = p->inner > 1 ? i / p->inner : i, inner = i - outer * p->inner;
        const float *const x = p->x + outer * p->x_o + inner;
        float *const y = p->y + outer * p->y_o + inner;
        const bounds_t bounds = bounds_of(x, x_c, classes);
        if (__builtin_expect(!powers_are_normal(bounds), 0)) {
            any(p, x, y, bounds.high);
            continue;
        }
        divide(y, y_c, classes, sum_of_powers(1, y, y_c, x, x_c, classes, bounds.high));
    }
}
