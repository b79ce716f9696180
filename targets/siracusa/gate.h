/* A Relu's gradient on a line of results: what belongs to a Y that is not above zero becomes zero. */
#ifndef GATE_H
#define GATE_H

#include "pulp.h"

/* dx[j] = y[j] > 0 ? dy[j] : 0; two elements a turn, a comparison's 1 made a mask of all bits. */
static inline void gate_line(float *dx, const float *dy, const float *y, uint32_t count) {
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

/* The same of one dY for all. */
static inline void gate_fill(float *dx, float dy, const float *y, uint32_t count) {
    const uint32_t bits = bits_in_core(dy);
    uint32_t first, second;
    if (count & 1) *dx++ = *y++ > 0.0f ? dy : 0.0f;
    if (count >= 2)
        __asm__ volatile("fmv.w.x ft2, zero\n" LOOP("%[pairs]", 11) FLW("ft0", "%[y]", 0) FLW("ft1", "%[y]", 4)
                         ADDI("%[y]", 8) "flt.s %[first], ft2, ft0\n flt.s %[second], ft2, ft1\n"
                         "neg %[first], %[first]\n and %[first], %[first], %[bits]\n neg %[second], %[second]\n"
                         SW_NEXT("%[first]", "%[dx]", 4) "and %[second], %[second], %[bits]\n"
                         SW_NEXT("%[second]", "%[dx]", 4) LOOP_END(11)
                         : [y] "+&r"(y), [dx] "+&r"(dx), [first] "=&r"(first), [second] "=&r"(second)
                         : [bits] "r"(bits), [pairs] "r"(count >> 1)
                         : "ft0", "ft1", "ft2", "memory");
}

#endif
