/* A row of softmax: powers over their sum. */
#ifndef ROW_SHARES_H
#define ROW_SHARES_H

#include "quotient.h"
#include "row_powers.h"

/* y /= sum where some powers are too small for quotient_by as they are, or the sum is NaN. Powers whose shares are no
 * subnormals are not too small once they are made 2^100 times as large. */
static __attribute__((noinline)) void divide_any(float *y, uint32_t step, uint32_t count, float sum, float inverse) {
    const float large = LITERAL_F32(0x1p100f), small = LITERAL_F32(0x1p-100f), least = LITERAL_F32(0x1p-125f) * sum;
    for (; count > 0; count--, y += step) {
        const float power = *y;
        if (power >= least)
            *y = quotient_by(power * large, sum, inverse) * small;
        else if (power != 0.0f || sum != sum)
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

/* y = e^(x - max) / sum(e^(x - max)) of a whole row, whose largest element is `max`, and that sum; y may be x. */
ROW_POWERS float shares_of(float *y, uint32_t y_step, const float *x, uint32_t step, uint32_t count, float max) {
    const powers_t powers = powers_of(y, y_step, x, step, count, max);
    const float inverse = inverse_of(powers.sum);
    if (powers.least < USUAL_POWER || powers.sum != powers.sum)
        divide_any(y, y_step, count, powers.sum, inverse);
    else
        divide(y, y_step, count, powers.sum, inverse);
    return powers.sum;
}

#endif
