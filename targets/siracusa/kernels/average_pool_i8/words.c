/* Y = round(x_scale / (y_scale * count) * (sum of a window's X - zero)), four channels at a time. */
#include "average_pool_i8.h"
#include "pool_words_i8.h"
#include "quotient.h"
#include "round_i8.h"

static inline uint32_t mean(const average_pool_i8_args_t *p, const window_i8_t *window) {
    const uint32_t inside = window->rows * window->columns;
    const int32_t zeros = -p->x_zero * (int32_t)inside, low = (int32_t)p->low, high = (int32_t)p->high;
    if (inside + p->all_taps == 0) return in_each_byte(low + p->zero); /* the mean of nothing is no number */
    int32_t a = zeros, b = zeros, c = zeros, d = zeros;
    uint32_t four;
    uintptr_t row = window->x;
    for (uint32_t left = window->columns > 0 ? window->rows : 0; left > 0; left--, row += window->x_h) {
        uintptr_t x = row;
        __asm__ volatile(LOOP("%[count]", 6) LW_STEP("%[four]", "%[x]", "%[step]") "nop\n"
                         SUM_PRODUCTS("%[a]", "%[four]", "%[first]") SUM_PRODUCTS("%[b]", "%[four]", "%[second]")
                         SUM_PRODUCTS("%[c]", "%[four]", "%[third]") SUM_PRODUCTS("%[d]", "%[four]", "%[fourth]") LOOP_END(6)
                         : [x] "+r"(x), [four] "=&r"(four), [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [d] "+r"(d)
                         : [count] "r"(window->columns), [step] "r"(window->x_w), [first] "r"(1), [second] "r"(1 << 8),
                           [third] "r"(1 << 16), [fourth] "r"(1 << 24)
                         : "memory");
    }
    const float ratio = QUOTIENT_F32(p->x_scale, p->y_scale * (float)(p->all_taps ? p->all_taps : inside));
    const int32_t numbers[4] = {rounded((float)a * ratio, low, high), rounded((float)b * ratio, low, high),
                                rounded((float)c * ratio, low, high), rounded((float)d * ratio, low, high)};
    return four_of(numbers, in_each_byte(p->zero));
}

POOL_WORDS(average_pool_i8_args_t, mean)

void average_pool_i8_words(const void *args) { pool_words(args); }
