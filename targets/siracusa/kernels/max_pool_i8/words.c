/* Y = the largest X of each window, four channels at a time. */
#include "max_pool_i8.h"
#include "pool_words_i8.h"
#include "round_i8.h"

static inline uint32_t largest(const max_pool_i8_args_t *p, const window_i8_t *window) {
    uint32_t most = 0x80808080u, four;
    uintptr_t row = window->x;
    (void)p;
    for (uint32_t a = window->columns > 0 ? window->rows : 0; a > 0; a--, row += window->x_h) {
        uintptr_t x = row;
        __asm__ volatile(LOOP("%[count]", 3) LW_STEP("%[four]", "%[x]", "%[step]") "nop\n" MAX_BYTES("%[most]", "%[most]", "%[four]")
                         LOOP_END(3)
                         : [x] "+r"(x), [four] "=&r"(four), [most] "+r"(most) : [count] "r"(window->columns), [step] "r"(window->x_w)
                         : "memory");
    }
    return most;
}

POOL_WORDS(max_pool_i8_args_t, largest)

void max_pool_i8_words(const void *args) { pool_words(args); }
