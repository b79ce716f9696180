/* buffer = fresh ? grad : buffer + grad. */
#include "accumulate_f32.h"
#include "flat.h"

#define SUM(buffer, grad) "fadd.s " buffer ", " buffer ", " grad "\n"

static inline void copy(float *y, const float *x, uint32_t count) {
    uint32_t first, second;
    if (count & 1) *y++ = *x++;
    if (count >= 2)
        __asm__ volatile(LOOP("%[pairs]", 4) LW_NEXT("%[first]", "%[x]", 4) LW_NEXT("%[second]", "%[x]", 4)
                             SW_NEXT("%[first]", "%[y]", 4) SW_NEXT("%[second]", "%[y]", 4) LOOP_END(4)
                         : [x] "+&r"(x), [y] "+&r"(y), [first] "=&r"(first), [second] "=&r"(second)
                         : [pairs] "r"(count >> 1)
                         : "memory");
}

void accumulate_f32(const void *args) {
    const accumulate_f32_args_t *p = args;
    const share_t share = share_of(p->n);
    const uint32_t count = share.end - share.begin;
    float *buffer = p->buffer + share.begin;
    const float *grad = p->grad + share.begin;
    if (p->fresh)
        copy(buffer, grad, count);
    else
        FLAT_IN_PLACE(SUM, 1, buffer, grad, count);
}
