/* A vector times a matrix: four or two outputs at once. Lines of a Gemm's outputs are such products, too (gemm_lines.h);
 * gemm_block.h has the rules of the loops.
 *
 * Before it is included, SEVERAL_BLOCKS says whether sums may have several blocks of products. */
#ifndef GEMM_LINE_H
#define GEMM_LINE_H

#include "gemm_epilogue.h"
#include "hal.h"
#include "line_sums.h"
#include "matrix_epilogue.h"
#include "products_f32.h"
#include "pulp.h"

static inline int has_epilogue(const MATRICES *p) {
    return p->last && (p->c || p->relu || p->gate || scales(p->alpha));
}

/* What is fused to four complete sums, where c and gate have them c_n and gate_n apart; from number `count` on they are the sum
 * before again. */
static __attribute__((noinline)) void epilogue(const MATRICES *p, float s[4], uint32_t count, const float *c, uint32_t c_n,
                                             const float *gate, uint32_t gate_n) {
    const float alpha = p->alpha, beta = p->beta;
    s[0] *= alpha, s[1] *= alpha, s[2] *= alpha, s[3] *= alpha; /* by 1 as well: the bits stay */
    if (p->c) {
        s[0] = __builtin_fmaf(beta, *c, s[0]);
        if (count > 1) c += c_n;
        s[1] = __builtin_fmaf(beta, *c, s[1]);
        if (count > 2) c += c_n;
        s[2] = __builtin_fmaf(beta, *c, s[2]);
        if (count > 3) c += c_n;
        s[3] = __builtin_fmaf(beta, *c, s[3]);
    }
    if (p->relu) s[0] = rectified(s[0]), s[1] = rectified(s[1]), s[2] = rectified(s[2]), s[3] = rectified(s[3]);
    if (p->gate) {
        s[0] = let_through(s[0], *gate);
        if (count > 1) gate += gate_n;
        s[1] = let_through(s[1], *gate);
        if (count > 2) gate += gate_n;
        s[2] = let_through(s[2], *gate);
        if (count > 3) gate += gate_n;
        s[3] = let_through(s[3], *gate);
    }
}

/* s[0..1] += v times the columns w0 and w1. */
static inline void add_2(const steps_t *step, uint32_t k, const float *v, const float *w0, const float *w1,
                         float s[2]) {
    if (step->w_k == 4 && step->v_k == 4 && k >= 4) {
        __asm__ volatile(LOOP("%[turns]", 23)
                         VECTOR QUARTER("%[s0]", "%[w0]", "%[w1]") LAST_QUARTER("%[s1]", "%[w1]")
                         LOOP_END(23)
                         : OPERANDS_2 : [turns] "r"(k >> 2) : CLOBBERS);
        k &= 3;
    } else if (SEVERAL_BLOCKS && w1 == w0 + 1 && step->v_k == 4 && k >= 4) { /* short sums are not worth the code */
        __asm__ volatile(LOOP("%[turns]", 25)
                         FLW("ft0", "%[v]", 0) PAIR("ft0", "fa0", "fa1", FLW("ft1", "%[v]", 4))
                         PAIR("ft1", "fa2", "fa3", FLW("ft2", "%[v]", 8))
                         PAIR("ft2", "fa0", "fa1", FLW("ft3", "%[v]", 12)) PAIR("ft3", "fa2", "fa3", ADDI("%[v]", 16))
                         LOOP_END(25)
                         : OPERANDS_2 : [turns] "r"(k >> 2), [w_k] "r"(step->w_k) : CLOBBERS);
        w1 = w0 + 1;
        k &= 3;
    }
    if (k > 0)
        __asm__ volatile(LOOP("%[turns]", 8)
                         FLW("ft0", "%[v]", 0) FLW("fa0", "%[w0]", 0) FLW("fa1", "%[w1]", 0) ADD("%[v]", "%[v_k]")
                         MAC_2("ft0") STEP_2("%[w_k]")
                         LOOP_END(8)
                         : OPERANDS_2 : [turns] "r"(k), [v_k] "r"(step->v_k), [w_k] "r"(step->w_k) : CLOBBERS);
}

/* Loops over n turn once or twice: what the compiler would prepare for every turn costs more than it saves. */
#define HIDE(n) __asm__("" : "+r"(n))

/* The outputs of a vector times a matrix. Where sums have several blocks, what waits in Y is added to; where they have one,
 * that goes on. */
static inline __attribute__((always_inline)) void line_of(const MATRICES *p) {
    const steps_t step = {4 * p->a_k, 4 * p->b_k, 4 * p->b_n};
    const float *v = p->a, *w = p->b, *c = p->c, *gate = p->gate;
    float *y = p->y;
    const uint32_t count = p->n, c_n = p->c_n, finished = has_epilogue(p);
    const uint32_t goes_on = !p->first && p->single, adds = !p->first && !p->single;
    const uint32_t cores = hal_core_count(), fours = count > 2 * cores ? count & ~3u : 0;
    for (uint32_t n = 4 * hal_core_id(); n < fours; n += 4 * cores) {
        HIDE(n);
        float *to = y + n, s[4] = {0};
        const float *b = at(w, n * step.w_n);
        if (goes_on) s[0] = to[0], s[1] = to[1], s[2] = to[2], s[3] = to[3];
        if (SEVERAL_BLOCKS) {
            const float *a = v;
            float sums[4] = {LITERAL_F32(-0.0f)}; /* plus the first block: that itself */
            sums[1] = sums[2] = sums[3] = sums[0];
            if (adds) sums[0] = to[0], sums[1] = to[1], sums[2] = to[2], sums[3] = to[3];
            for (uint32_t left = p->k;;) {
                const uint32_t k = hal_min(left, PRODUCTS_BLOCK);
                add_4(&step, k, a, b, s, 4);
                s[0] += sums[0], s[1] += sums[1], s[2] += sums[2], s[3] += sums[3];
                left -= k;
                if (left == 0) break;
                a = at(a, PRODUCTS_BLOCK * step.v_k), b = at(b, PRODUCTS_BLOCK * step.w_k);
                sums[0] = s[0], sums[1] = s[1], sums[2] = s[2], sums[3] = s[3];
                s[0] = s[1] = s[2] = s[3] = 0.0f;
            }
        } else {
            add_4(&step, p->k, v, b, s, 4);
            if (adds) s[0] += to[0], s[1] += to[1], s[2] += to[2], s[3] += to[3];
        }
        if (finished) epilogue(p, s, 4, c + n * c_n, c_n, gate + n, 1);
        to[0] = s[0], to[1] = s[1], to[2] = s[2], to[3] = s[3];
    }
    /* the last cores have the fewest fours; a column without a neighbour is its own */
    for (uint32_t n = fours + 2 * (cores - 1 - hal_core_id()); n < count; n += 2 * cores) {
        HIDE(n);
        const uint32_t other = n + 1 < count ? n + 1 : n;
        float *to = y + n, *second = y + other, s[4] = {0};
        const float *b = at(w, n * step.w_n), *next = at(w, other * step.w_n);
        if (goes_on) s[0] = *to, s[1] = *second;
        if (SEVERAL_BLOCKS) {
            const float *a = v;
            float sums[2] = {LITERAL_F32(-0.0f)};
            sums[1] = sums[0];
            if (adds) sums[0] = *to, sums[1] = *second;
            for (uint32_t left = p->k;;) {
                const uint32_t k = hal_min(left, PRODUCTS_BLOCK);
                add_2(&step, k, a, b, next, s);
                s[0] += sums[0], s[1] += sums[1];
                left -= k;
                if (left == 0) break;
                a = at(a, PRODUCTS_BLOCK * step.v_k);
                b = at(b, PRODUCTS_BLOCK * step.w_k), next = at(next, PRODUCTS_BLOCK * step.w_k);
                sums[0] = s[0], sums[1] = s[1], s[0] = s[1] = 0.0f;
            }
        } else {
            add_2(&step, p->k, v, b, next, s);
            if (adds) s[0] += *to, s[1] += *second;
        }
        if (finished) epilogue(p, s, other - n + 1, c + n * c_n, c_n, gate + n, 1);
        *to = s[0], *second = s[1];
    }
}

#endif
