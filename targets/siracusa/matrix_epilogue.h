/* Blocks of 4 x 4 outputs to Y, and what comes behind a complete sum. */
#ifndef MATRIX_EPILOGUE_H
#define MATRIX_EPILOGUE_H

#include "gemm_block.h"
#include "hints.h"

static inline int scales(float alpha) {
    const union {
        float value;
        uint32_t bits;
    } number = {alpha};
    return number.bits != 0x3f800000; /* not 1.0f, which would be read from L2 */
}

static inline __attribute__((always_inline)) void put_rows(float c[4][4], float *y, uint32_t y_m) {
    UNROLL for (uint32_t m = 0; m < 4; m++, y += y_m) {
        UNROLL for (uint32_t n = 0; n < 4; n++) y[n] = c[m][n];
    }
}

/* Relu, or a gate, on 4 x 4 outputs that lie in Y: what is not let through is zero, by a mask of all bits. */
#define MASKS(mask) mask("t4", "ft0") mask("t5", "ft1") mask("t6", "ft2") mask("a7", "ft3")
#define MASK_POSITIVE(to, from) "fle.s " to ", " from ", fa0\n" "addi " to ", " to ", -1\n"
#define MASK_OPEN(to, from) "flt.s " to ", fa0, " from "\n" "neg " to ", " to "\n"
#define ACTIVATE(mask, by, by_m, y, y_m)                                                                              \
    __asm__ volatile("fmv.w.x fa0, zero\n" LOOP("%[rows]", 26)                                                        \
                     FLW("ft0", "%[x]", 0) FLW("ft1", "%[x]", 4) FLW("ft2", "%[x]", 8) FLW("ft3", "%[x]", 12)         \
                     "lw t0, 0(%[to])\n lw t1, 4(%[to])\n lw t2, 8(%[to])\n lw t3, 12(%[to])\n" MASKS(mask)            \
                     "and t0, t0, t4\n and t1, t1, t5\n and t2, t2, t6\n and t3, t3, a7\n" ADD("%[x]", "%[x_m]")      \
                     "sw t0, 0(%[to])\n sw t1, 4(%[to])\n sw t2, 8(%[to])\n sw t3, 12(%[to])\n" ADD("%[to]", "%[to_m]") \
                     LOOP_END(26)                                                                                     \
                     : [x] "+&r"(by), [to] "+&r"(y) : [rows] "r"(4), [x_m] "r"(4 * (by_m)), [to_m] "r"(4 * (y_m))      \
                     : "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a7", CLOBBERS)

#endif
