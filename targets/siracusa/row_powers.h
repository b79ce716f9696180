/* Rows of softmax: their largest element, and the sum of e^(x - max), in the order of sum_f32.h. */
#ifndef ROW_POWERS_H
#define ROW_POWERS_H

#include "exponential.h"
#include "sum_f32.h"

#define ROW_POWERS static inline __attribute__((always_inline))

/* NaN is left out; the sum of powers has it. */
ROW_POWERS float largest_of(const float *x, uint32_t step, uint32_t count) {
    float largest = *x;
    __asm__ volatile(LOOP("%[count]", 3) FLW("ft0", "%[x]", 0) ADD("%[x]", "%[step]")
                     "fmax.s %[largest], %[largest], ft0\n" LOOP_END(3)
                     : [x] "+&r"(x), [largest] "+&f"(largest)
                     : [step] "r"(4 * step), [count] "r"(count)
                     : "ft0", "memory");
    return largest;
}

static __attribute__((noinline)) uint32_t small_power(float x) { return bits_in_core(expf_f32(x)); }

/* The bits of e^x for x up to 0 or NaN, by the bits of x: these are of -87 and of -104. */
ROW_POWERS uint32_t power_of(float x, exp_terms_t terms) {
    const uint32_t bits = bits_in_core(x);
    if (bits <= 0xc2ae0000u) return exp_bits(x, terms);
    return bits > 0xc2d00000u ? 0 : small_power(x);
}

/* The sum of e^(x - max) over a row, and the bits of the smallest; `keeps`, a constant, says whether the powers go to y. */
typedef struct {
    float sum;
    uint32_t least;
} powers_t;

ROW_POWERS powers_t powers_of(int keeps, float *y, uint32_t y_step, const float *x, uint32_t step, uint32_t count,
                              float max) {
    const exp_terms_t terms = exp_terms_f32();
    const uint32_t size = count > SUM_BLOCK ? SUM_BLOCK : 0;
    uint32_t least = 0x7f800000u;
    sum_t powers = {0};
    for (uint32_t c = 0; c < count;) {
        const uint32_t part = sum_next(&powers, size, c, count - c);
        c += part;
        for (uint32_t left = part; left > 0; left--, x += step) {
            const uint32_t bits = power_of(*x - max, terms);
            const float power = float_in_fpu(bits);
            if (keeps) {
                *y = power, y += y_step;
                __asm__(MIN_UNSIGNED("%0", "%0", "%1") : "+r"(least) : "r"(bits));
            }
            powers.block += power;
        }
    }
    return (powers_t){sum_value(&powers, size), least};
}

#endif
