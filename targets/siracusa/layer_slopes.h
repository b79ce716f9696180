/* A part of a row of layer normalization's dX, inv_std (dY scale - shift + (mean - X) slope), and the same with the sum with another
 * row behind it. */
#ifndef LAYER_SLOPES_H
#define LAYER_SLOPES_H

#include "gate.h"
#include "row_loop.h"

#define SLOPE_SCALE(dy, scale) "fmsub.s " dy ", " dy ", " scale ", %[shift]\n"
#define SLOPE_CENTRE(x) "fsub.s " x ", %[mean], " x "\n"
#define SLOPE_SUM(x, dy) "fmadd.s " x ", " x ", %[slope], " dy "\n"
#define SLOPE_UNIT(x) "fmul.s " x ", " x ", %[inv_std]\n"
/* 16 instructions for two neighbours. */
#define SLOPE_PAIR(at, behind)                                                                                        \
    FLW("fa0", "%[dy]", at) FLW("fa2", "%[scale]", at) FLW("ft0", "%[x]", at) SLOPE_SCALE("fa0", "fa2")               \
    FLW("fa1", "%[dy]", behind) SLOPE_CENTRE("ft0") FLW("fa3", "%[scale]", behind) SLOPE_SUM("ft0", "fa0")            \
    FLW("ft1", "%[x]", behind) SLOPE_SCALE("fa1", "fa3") SLOPE_UNIT("ft0") SLOPE_CENTRE("ft1") FSW("ft0", "%[dx]", at) \
    SLOPE_SUM("ft1", "fa1") SLOPE_UNIT("ft1") FSW("ft1", "%[dx]", behind)

static inline void slope_row(float *dx, const float *dy, const float *x, const float *scale, float mean, float inv_std,
                          float shift, float slope, uint32_t count) {
    __asm__ volatile(ROW_LOOP(36,
                              SLOPE_PAIR(0, 4) SLOPE_PAIR(8, 12) ADDI("%[dy]", 16) ADDI("%[scale]", 16) ADDI("%[x]", 16)
                              ADDI("%[dx]", 16),
                              12,
                              FLW("fa0", "%[dy]", 0) FLW("fa2", "%[scale]", 0) FLW("ft0", "%[x]", 0)
                              SLOPE_SCALE("fa0", "fa2") ADDI("%[dy]", 4) SLOPE_CENTRE("ft0") ADDI("%[scale]", 4)
                              SLOPE_SUM("ft0", "fa0") ADDI("%[x]", 4) SLOPE_UNIT("ft0") FSW("ft0", "%[dx]", 0) ADDI("%[dx]", 4))
                     : [dy] "+&r"(dy), [scale] "+&r"(scale), [x] "+&r"(x), [dx] "+&r"(dx)
                     : [mean] "f"(mean), [inv_std] "f"(inv_std), [shift] "f"(shift), [slope] "f"(slope),
                       [turns] "r"(count >> 2), [rest] "r"(count & 3)
                     : "ft0", "ft1", "fa0", "fa1", "fa2", "fa3", "memory");
}

#define SLOPE_ADD(x, added) "fadd.s " x ", " x ", " added "\n"
/* 20 instructions for two neighbours. */
#define ADDED_PAIR(at, behind)                                                                                        \
    FLW("fa0", "%[dy]", at) FLW("fa2", "%[scale]", at) FLW("ft0", "%[x]", at) SLOPE_SCALE("fa0", "fa2")               \
    FLW("fa1", "%[dy]", behind) SLOPE_CENTRE("ft0") FLW("fa3", "%[scale]", behind) SLOPE_SUM("ft0", "fa0")            \
    FLW("ft1", "%[x]", behind) SLOPE_SCALE("fa1", "fa3") SLOPE_UNIT("ft0") SLOPE_CENTRE("ft1") FLW("fa2", "%[added]", at) \
    SLOPE_SUM("ft1", "fa1") SLOPE_ADD("ft0", "fa2") FLW("fa3", "%[added]", behind) SLOPE_UNIT("ft1") FSW("ft0", "%[dx]", at) \
    SLOPE_ADD("ft1", "fa3") FSW("ft1", "%[dx]", behind)

static inline void added_row(float *dx, const float *dy, const float *x, const float *scale, const float *added, float mean,
                             float inv_std, float shift, float slope, uint32_t count) {
    __asm__ volatile(ROW_LOOP(45,
                              ADDED_PAIR(0, 4) ADDED_PAIR(8, 12) ADDI("%[dy]", 16) ADDI("%[scale]", 16) ADDI("%[x]", 16)
                              ADDI("%[added]", 16) ADDI("%[dx]", 16),
                              15,
                              FLW("fa0", "%[dy]", 0) FLW("fa2", "%[scale]", 0) FLW("ft0", "%[x]", 0)
                              SLOPE_SCALE("fa0", "fa2") ADDI("%[dy]", 4) SLOPE_CENTRE("ft0") ADDI("%[scale]", 4)
                              SLOPE_SUM("ft0", "fa0") FLW("fa3", "%[added]", 0) ADDI("%[x]", 4) SLOPE_UNIT("ft0")
                              ADDI("%[added]", 4) SLOPE_ADD("ft0", "fa3") FSW("ft0", "%[dx]", 0) ADDI("%[dx]", 4))
                     : [dy] "+&r"(dy), [scale] "+&r"(scale), [x] "+&r"(x), [added] "+&r"(added), [dx] "+&r"(dx)
                     : [mean] "f"(mean), [inv_std] "f"(inv_std), [shift] "f"(shift), [slope] "f"(slope),
                       [turns] "r"(count >> 2), [rest] "r"(count & 3)
                     : "ft0", "ft1", "fa0", "fa1", "fa2", "fa3", "memory");
}

static __attribute__((noinline, unused)) void gate_row(float *dx, const float *x, uint32_t count) { gate_line(dx, dx, x, count); }

#endif
