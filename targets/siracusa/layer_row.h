/* A part of a row of layer normalization, ((X - mean) inv_std + lacks) scale + bias, or without a bias. */
#ifndef LAYER_ROW_H
#define LAYER_ROW_H

#include "row_loop.h"

#define ROW_CENTRE(x) "fsub.s " x ", " x ", %[mean]\n"
#define ROW_UNIT(x) "fmadd.s " x ", " x ", %[inv_std], %[lacks]\n"
#define ROW_SCALE(x, scale, bias) "fmadd.s " x ", " x ", " scale ", " bias "\n"
/* 14 instructions for two neighbours. */
#define ROW_PAIR(x, at, z, behind)                                                                                    \
    FLW(x, "%[x]", at) FLW(z, "%[x]", behind) ROW_CENTRE(x) ROW_CENTRE(z) FLW("fa0", "%[scale]", at) FLW("fa1", "%[bias]", at) \
    ROW_UNIT(x) ROW_UNIT(z) FLW("fa2", "%[scale]", behind) FLW("fa3", "%[bias]", behind) ROW_SCALE(x, "fa0", "fa1")   \
    ROW_SCALE(z, "fa2", "fa3") FSW(x, "%[y]", at) FSW(z, "%[y]", behind)

static inline void biased(float *y, const float *x, const float *scale, const float *bias, float mean, float inv_std,
                          float lacks, uint32_t count) {
    __asm__ volatile(ROW_LOOP(32,
                              ROW_PAIR("ft0", 0, "ft1", 4) ROW_PAIR("ft2", 8, "ft3", 12) ADDI("%[x]", 16) ADDI("%[scale]", 16)
                              ADDI("%[bias]", 16) ADDI("%[y]", 16),
                              11,
                              FLW("ft0", "%[x]", 0) FLW("fa0", "%[scale]", 0) ROW_CENTRE("ft0") FLW("fa1", "%[bias]", 0)
                              ROW_UNIT("ft0") ADDI("%[x]", 4) ROW_SCALE("ft0", "fa0", "fa1") ADDI("%[scale]", 4)
                              FSW("ft0", "%[y]", 0) ADDI("%[bias]", 4) ADDI("%[y]", 4))
                     : [x] "+&r"(x), [scale] "+&r"(scale), [bias] "+&r"(bias), [y] "+&r"(y)
                     : [mean] "f"(mean), [inv_std] "f"(inv_std), [lacks] "f"(lacks), [turns] "r"(count >> 2), [rest] "r"(count & 3)
                     : "ft0", "ft1", "ft2", "ft3", "fa0", "fa1", "fa2", "fa3", "memory");
}

static __attribute__((noinline)) void unbiased(float *y, const float *x, const float *scale, float mean, float inv_std,
                                               float lacks, uint32_t count) {
    for (; count > 0; count--) *y++ = __builtin_fmaf(*x++ - mean, inv_std, lacks) * *scale++;
}

/* Relu is the larger of the bits and 0: a NaN that arithmetic makes has no sign here. */
static __attribute__((noinline)) void rectify(float *y, uint32_t count) {
    __asm__ volatile(LOOP("%[count]", 3) "lw t0, 0(%[y])\n" MAX("t0", "t0", "zero") SW_NEXT("t0", "%[y]", 4) LOOP_END(3)
                     : [y] "+&r"(y) : [count] "r"(count) : "t0", "memory");
}

static inline void normalize_row(float *y, const float *x, const float *scale, const float *bias, float mean, float inv_std,
                                 float lacks, uint32_t count, uint32_t relu) {
    if (bias)
        biased(y, x, scale, bias, mean, inv_std, lacks, count);
    else
        unbiased(y, x, scale, mean, inv_std, lacks, count);
    if (relu) rectify(y, count);
}

#endif
