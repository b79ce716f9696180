/* dX = dY where Y > 0, else 0: two elements a turn, a comparison's 1 made a mask of all bits. */
#include "relu_grad_f32.h"
#include "hal.h"
#include "pulp.h"
#include "share_f32.h"

void relu_grad_f32(const void *args) {
    const relu_grad_f32_args_t *p = args;
    const share_t share = share_of(p->n);
    const uint32_t count = share.end - share.begin;
    const float *dy = p->dy + share.begin, *y = p->y + share.begin;
    float *dx = p->dx + share.begin;
    uint32_t first, second, mask;
    if (count & 1) *dx++ = *y++ > 0.0f ? *dy : 0.0f, dy++;
    if (count >= 2)
        __asm__ volatile("fmv.w.x ft2, zero\n" LOOP("%[pairs]", 13) FLW("ft0", "%[y]", 0) FLW("ft1", "%[y]", 4)
                         LW_NEXT("%[first]", "%[dy]", 4) LW_NEXT("%[second]", "%[dy]", 4)
                         "flt.s %[mask], ft2, ft0\n neg %[mask], %[mask]\n and %[first], %[first], %[mask]\n"
                         "flt.s %[mask], ft2, ft1\n neg %[mask], %[mask]\n and %[second], %[second], %[mask]\n"
                         SW_NEXT("%[first]", "%[dx]", 4) ADDI("%[y]", 8) SW_NEXT("%[second]", "%[dx]", 4) LOOP_END(13)
                         : [dy] "+&r"(dy), [y] "+&r"(y), [dx] "+&r"(dx), [first] "=&r"(first), [second] "=&r"(second),
                           [mask] "=&r"(mask)
                         : [pairs] "r"(count >> 1)
                         : "ft0", "ft1", "ft2", "memory");
}
