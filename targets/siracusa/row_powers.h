/* Rows of softmax: their largest and smallest element, and the sum of e^(x - max), in the order of sum_f32.h. */
#ifndef ROW_POWERS_H
#define ROW_POWERS_H

#include "exponential.h"
#include "sum_f32.h"

typedef struct {
    float low, high;
} bounds_t;

/* NaN is left out; the sum of powers has it. */
static inline bounds_t bounds_of(const float *x, uint32_t step, uint32_t count) {
    bounds_t bounds = {*x, *x};
    __asm__(LOOP("%[count]", 4) FLW("ft0", "%[x]", 0) ADD("%[x]", "%[step]")
            "fmin.s %[low], %[low], ft0\n fmax.s %[high], %[high], ft0\n" LOOP_END(4)
            : [x] "+&r"(x), [low] "+&f"(bounds.low), [high] "+&f"(bounds.high)
            : [step] "r"(4 * step), [count] "r"(count)
            : "ft0", "memory");
    return bounds;
}

/* Whether all powers of a row are normal numbers; false where its largest element is infinite. */
static inline int powers_are_normal(bounds_t bounds) { return bounds.low - bounds.high >= EXP_LOWEST; }

/* The sum of e^(x - max) over a row whose powers are normal numbers; `keeps`, a constant, says whether they go to y. */
static inline __attribute__((always_inline)) float sum_of_powers(int keeps, float *y, uint32_t y_step, const float *x,
                                                                 uint32_t step, uint32_t count, float max) {
    const exp_terms_t terms = exp_terms_f32();
    const uint32_t size = count > SUM_BLOCK ? SUM_BLOCK : 0;
    sum_t powers = {0};
    for (uint32_t c = 0; c < count;) {
        const uint32_t part = sum_next(&powers, size, c, count - c);
        c += part;
        for (uint32_t left = part; left > 0; left--, x += step) {
            const float power = exp_normal(*x - max, terms);
            if (keeps) *y = power, y += y_step;
            powers.block += power;
        }
    }
    return sum_value(&powers, size);
}

#endif
