/* y = exp(x - max) / sum(exp(x - max)) over the classes of each row, in the order of sum_f32.h. */
#include "softmax_f32.h"
#include "hal.h"
#include "quotient.h"
#include "row_powers.h"

/* y /= sum for powers that are 0 or too small for quotient_by, or a sum that is NaN. */
static __attribute__((noinline)) void divide_any(float *y, uint32_t step, uint32_t count, float sum, float inverse) {
    const uint32_t number = sum == sum;
    for (; count > 0; count--, y += step) {
        const float power = *y;
        if (number & !unusual_dividend(power))
            *y = quotient_by(power, sum, inverse);
        else if (power != 0.0f || !number)
            *y = power / sum;
    }
}

/* The same for others; the sum of powers is 1 at least. */
static inline void divide(float *y, uint32_t step, uint32_t count, float sum, float inverse) {
    __asm__ volatile(LOOP("%[count]", 6)
                     FLW("ft0", "%[y]", 0) "fmul.s ft1, ft0, %[inverse]\n fnmsub.s ft0, ft1, %[sum], ft0\n"
                     "fmadd.s ft1, ft0, %[inverse], ft1\n" FSW("ft1", "%[y]", 0) ADD("%[y]", "%[step]") LOOP_END(6)
                     : [y] "+&r"(y)
                     : [sum] "f"(sum), [inverse] "f"(inverse), [step] "r"(4 * step), [count] "r"(count)
                     : "ft0", "ft1", "memory");
}

void softmax_f32(const void *args) {
    const softmax_f32_args_t *p = args;
    const uint32_t rows = p->outer * p->inner, classes = p->classes, x_c = p->x_c, y_c = p->y_c;
    for (uint32_t i = hal_core_id(); i < rows; i += hal_core_count()) {
        const uint32_t outer = p->inner > 1 ? i / p->inner : i, inner = i - outer * p->inner;
        const float *const x = p->x + outer * p->x_o + inner;
        float *const y = p->y + outer * p->y_o + inner;
        const powers_t powers = powers_of(y, y_c, x, x_c, classes, largest_of(x, x_c, classes));
        const float inverse = inverse_of(powers.sum);
        if (powers.least < USUAL_POWER || powers.sum != powers.sum)
            divide_any(y, y_c, classes, powers.sum, inverse);
        else
            divide(y, y_c, classes, powers.sum, inverse);
    }
}
