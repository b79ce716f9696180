/* y = exp(s - max) / sum(exp(s - max)) over the classes of each row of s = alpha x + mask, each rounded, in the order of
 * sum_f32.h. The mask may be absent. Of row n of a tile the softmax has the first seen + n + 1 classes. */
#include "masked_softmax_f32.h"
#include "hal.h"
#include "masked_row_f32.h"
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

void masked_softmax_f32(const void *args) {
    const masked_softmax_f32_args_t *p = args;
    const uint32_t rows = p->outer * p->inner, classes = p->classes;
    for (uint32_t i = hal_core_id(); i < rows; i += hal_core_count()) {
        const uint32_t o = p->outer > 1 ? i / p->inner : 0, n = i - o * p->inner;
        const float *const mask = p->mask ? p->mask + o * p->mask_o + n * p->mask_i : 0;
        float *const y = p->y + o * p->y_o + n * p->y_i;
        const uint32_t seen = hal_min(classes, p->seen + n + 1);
        const float largest = scores_of(y, p->x + o * p->x_o + n * p->x_i, mask, p->alpha, seen);
        fill_line_f32(y + seen, 0.0f, classes - seen);
        if (p->safe && row_is_hidden(y, seen))
            fill_line_f32(y, 0.0f, seen);
        else
            shares_of(y, 1, y, 1, seen, largest);
    }
}
