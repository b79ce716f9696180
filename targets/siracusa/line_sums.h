/* Sums of a vector times four columns of a matrix; gemm_block.h has the rules of the loops. */
#ifndef LINE_SUMS_H
#define LINE_SUMS_H

#include "gemm_block.h"
#include "pulp.h"

#define MAC_2(v) FMA("%[s0]", v, "fa0") FMA("%[s1]", v, "fa1")
#define STEP_2(step) ADD("%[w0]", step) ADD("%[w1]", step)
#define OPERANDS_2 [s0] "+&f"(s[0]), [s1] "+&f"(s[1]), [w0] "+&r"(w0), [w1] "+&r"(w1), [v] "+&r"(v)
#define OPERANDS_4 OPERANDS_2, [s2] "+&f"(s[2]), [s3] "+&f"(s[3]), [w2] "+&r"(w2), [w3] "+&r"(w3)
/* The rest of one column's four products, while the first two of the next one are loaded. */
#define QUARTER(s, w, next)                                                                                           \
    FMA(s, "ft0", "fa0") FLW("fa2", w, 8) FMA(s, "ft1", "fa1") FLW("fa3", w, 12)                                      \
    FMA(s, "ft2", "fa2") FLW("fa0", next, 0) FMA(s, "ft3", "fa3") FLW("fa1", next, 4)
#define LAST_QUARTER(s, w)                                                                                            \
    FMA(s, "ft0", "fa0") FLW("fa2", w, 8) FMA(s, "ft1", "fa1") FLW("fa3", w, 12)                                      \
    FMA(s, "ft2", "fa2") ADDI("%[w0]", 16) FMA(s, "ft3", "fa3") ADDI("%[w1]", 16) ADDI("%[v]", 16)
/* The products of two neighbours in a row; then `next`. */
#define PAIR(v, b0, b1, next)                                                                                         \
    FLW(b0, "%[w0]", 0) FLW(b1, "%[w0]", 4) ADD("%[w0]", "%[w_k]") FMA("%[s0]", v, b0) next FMA("%[s1]", v, b1)
#define VECTOR                                                                                                        \
    FLW("ft0", "%[v]", 0) FLW("fa0", "%[w0]", 0) FLW("ft1", "%[v]", 4) FLW("fa1", "%[w0]", 4)                         \
    FLW("ft2", "%[v]", 8) FLW("ft3", "%[v]", 12)

typedef struct {
    uint32_t v_k, w_k, w_n; /* bytes */
} steps_t;

/* s[0..3] += v times the columns w, w + w_n, .., of which those from `count` on are the one before it again. */
static __attribute__((noinline)) void add_4(const steps_t *step, uint32_t k, const float *v, const float *w0, float s[4],
                                            uint32_t count) {
    const float *w1 = w0, *w2, *w3;
    if (count > 1) w1 = at(w1, step->w_n);
    w2 = w1;
    if (count > 2) w2 = at(w2, step->w_n);
    w3 = w2;
    if (count > 3) w3 = at(w3, step->w_n);
    if (step->w_k == 4 && step->v_k == 4 && k >= 4) {
        __asm__ volatile(LOOP("%[turns]", 41)
                         VECTOR QUARTER("%[s0]", "%[w0]", "%[w1]") QUARTER("%[s1]", "%[w1]", "%[w2]")
                         QUARTER("%[s2]", "%[w2]", "%[w3]") LAST_QUARTER("%[s3]", "%[w3]")
                         ADDI("%[w2]", 16) ADDI("%[w3]", 16)
                         LOOP_END(41)
                         : OPERANDS_4 : [turns] "r"(k >> 2) : CLOBBERS);
        k &= 3;
    } else if (step->w_n == 4 && count == 4) {
        __asm__ volatile(LOOP("%[turns]", 11)
                         FLW("ft0", "%[v]", 0) FLW("fa0", "%[w0]", 0) ADD("%[v]", "%[v_k]") FMA("%[s0]", "ft0", "fa0")
                         FLW("fa1", "%[w0]", 4) FLW("fa2", "%[w0]", 8)
                         FMA("%[s1]", "ft0", "fa1") FLW("fa3", "%[w0]", 12)
                         FMA("%[s2]", "ft0", "fa2") ADD("%[w0]", "%[w_k]") FMA("%[s3]", "ft0", "fa3")
                         LOOP_END(11)
                         : OPERANDS_4 : [turns] "r"(k), [v_k] "r"(step->v_k), [w_k] "r"(step->w_k) : CLOBBERS);
        return;
    }
    if (k > 0)
        __asm__ volatile(LOOP("%[turns]", 14)
                         FLW("ft0", "%[v]", 0) FLW("fa0", "%[w0]", 0) FLW("fa1", "%[w1]", 0) FLW("fa2", "%[w2]", 0)
                         FLW("fa3", "%[w3]", 0) ADD("%[v]", "%[v_k]") MAC_2("ft0") FMA("%[s2]", "ft0", "fa2")
                         FMA("%[s3]", "ft0", "fa3") STEP_2("%[w_k]") ADD("%[w2]", "%[w_k]") ADD("%[w3]", "%[w_k]")
                         LOOP_END(14)
                         : OPERANDS_4 : [turns] "r"(k), [v_k] "r"(step->v_k), [w_k] "r"(step->w_k) : CLOBBERS);
}

#endif
