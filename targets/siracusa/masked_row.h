/* A row of shares with the cluster's hardware loops; masked_row_f32.h says what it does. */
#ifndef MASKED_ROW_H
#define MASKED_ROW_H

#include "row_shares.h"

#define SCALED FLW("ft0", "%[x]", 0) ADDI("%[x]", 4) "fmul.s ft0, ft0, %[alpha]\n"
#define KEPT FSW("ft0", "%[y]", 0) ADDI("%[y]", 4) "fmax.s %[largest], %[largest], ft0\n"
#define OPERANDS [x] "+&r"(x), [y] "+&r"(y), [largest] "+&f"(largest)
#define CONSTANTS [alpha] "f"(alpha), [count] "r"(count)

/* y = alpha x + mask, or alpha x where there is no mask; the largest of them. NaN is left out: the sum of powers has it. */
static inline float scores_of(float *y, const float *x, const float *mask, float alpha, uint32_t count) {
    float largest = float_in_fpu(0xff800000u);
    if (mask)
        __asm__ volatile(LOOP("%[count]", 9)
                         FLW("ft1", "%[mask]", 0) ADDI("%[mask]", 4) SCALED "fadd.s ft0, ft0, ft1\n" KEPT LOOP_END(9)
                         : OPERANDS, [mask] "+&r"(mask) : CONSTANTS : "ft0", "ft1", "memory");
    else
        __asm__ volatile(LOOP("%[count]", 6) SCALED KEPT LOOP_END(6) : OPERANDS : CONSTANTS : "ft0", "memory");
    return largest;
}

static inline row_stats_t masked_row(float *y, const float *x, const float *mask, uint32_t classes, uint32_t seen,
                                     float alpha, uint32_t safe) {
    const float largest = scores_of(y, x, mask, alpha, seen);
    fill_line_f32(y + seen, 0.0f, classes - seen);
    if (safe && row_is_hidden(y, seen)) {
        fill_line_f32(y, 0.0f, seen);
        return (row_stats_t){largest, 0.0f};
    }
    return (row_stats_t){largest, shares_of(y, 1, y, 1, seen, largest)};
}

#endif
