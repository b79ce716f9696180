/* The sums of dY scale and of dY scale (X - mean) over a row, which layer normalization's gradient needs. */
#ifndef LAYER_SUMS_H
#define LAYER_SUMS_H

#include "row_loop.h"
#include "sum_f32.h"

#define SUMS_SCALE(dy, scale) "fmul.s " dy ", " dy ", " scale "\n"
#define SUMS_CENTRE(x) "fsub.s " x ", " x ", %[mean]\n"
#define SUMS_ADD_TO(sum, x) "fadd.s " sum ", " sum ", " x "\n"
/* 14 instructions for two neighbours. */
#define SUMS_PAIR(at, behind)                                                                                         \
    FLW("fa0", "%[dy]", at) FLW("fa2", "%[scale]", at) FLW("ft0", "%[x]", at) SUMS_SCALE("fa0", "fa2")                \
    FLW("fa1", "%[dy]", behind) SUMS_CENTRE("ft0") FLW("fa3", "%[scale]", behind) SUMS_ADD_TO("%[total]", "fa0")      \
    FLW("ft1", "%[x]", behind) SUMS_SCALE("fa1", "fa3") FMA("%[dot]", "fa0", "ft0") SUMS_CENTRE("ft1")                \
    SUMS_ADD_TO("%[total]", "fa1") FMA("%[dot]", "fa1", "ft1")

/* Both open blocks with some elements more. */
static inline void add_sums(float *total, float *dot, const float *dy, const float *x, const float *scale, float mean,
                            uint32_t count) {
    __asm__ volatile(ROW_LOOP(31, SUMS_PAIR(0, 4) SUMS_PAIR(8, 12) ADDI("%[dy]", 16) ADDI("%[scale]", 16) ADDI("%[x]", 16),
                              10,
                              FLW("fa0", "%[dy]", 0) FLW("fa2", "%[scale]", 0) FLW("ft0", "%[x]", 0)
                              SUMS_SCALE("fa0", "fa2") ADDI("%[dy]", 4) SUMS_CENTRE("ft0") ADDI("%[scale]", 4)
                              SUMS_ADD_TO("%[total]", "fa0") ADDI("%[x]", 4) FMA("%[dot]", "fa0", "ft0"))
                     : [dy] "+&r"(dy), [scale] "+&r"(scale), [x] "+&r"(x), [total] "+&f"(*total), [dot] "+&f"(*dot)
                     : [mean] "f"(mean), [turns] "r"(count >> 2), [rest] "r"(count & 3)
                     : "ft0", "ft1", "fa0", "fa1", "fa2", "fa3", "memory");
}

#endif
