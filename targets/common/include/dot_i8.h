/* Sums of products of 8-bit numbers, by what a machine has for them. A sum is exact, so all ways give the same bits.
 *
 * DOT_PAIRS: Arm's instructions for pairs of 16 bits. Numbers of a window are spread to 16 bits once, for two windows side by side:
 * of four numbers the first and the third are a word, the second and the fourth the next one, as the instruction that spreads a
 * filter's numbers has them; then the same of the other window.
 * DOT_VECTORS: Arm's vectors, which have 16 numbers. Windows lie one behind the other. */
#ifndef DOT_I8_H
#define DOT_I8_H

#include <stdint.h>

#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2) && !defined(__ARM_BIG_ENDIAN)
#define DOT_VECTORS
#include <arm_mve.h>
#include <string.h>

/* Adds the products of `count` numbers of two windows with those of two filters; sums of the first filter come first. */
static inline void dot_vectors_i8(const int8_t *x0, const int8_t *x1, const int8_t *w0, const int8_t *w1, uint32_t count,
                                  int32_t *sums) {
    int32_t s00 = sums[0], s01 = sums[1], s10 = sums[2], s11 = sums[3];
    for (; count >= 16; count -= 16, x0 += 16, x1 += 16, w0 += 16, w1 += 16) {
        const int8x16_t x = vldrbq_s8(x0), y = vldrbq_s8(x1), v = vldrbq_s8(w0), w = vldrbq_s8(w1);
        s00 = vmladavaq_s8(s00, x, v), s01 = vmladavaq_s8(s01, y, v), s10 = vmladavaq_s8(s10, x, w), s11 = vmladavaq_s8(s11, y, w);
    }
    if (count > 0) {
        const mve_pred16_t some = vctp8q(count);
        const int8x16_t x = vldrbq_z_s8(x0, some), y = vldrbq_z_s8(x1, some), v = vldrbq_z_s8(w0, some), w = vldrbq_z_s8(w1, some);
        s00 = vmladavaq_s8(s00, x, v), s01 = vmladavaq_s8(s01, y, v), s10 = vmladavaq_s8(s10, x, w), s11 = vmladavaq_s8(s11, y, w);
    }
    sums[0] = s00, sums[1] = s01, sums[2] = s10, sums[3] = s11;
}

/* Rounds the products of sums with ratios into two lines, as requantize_i8.h has it for ratios that are numbers. */
static inline void results_of_vectors_i8(const int32_t *sums, const float *ratio, uint32_t count, int32_t low, int32_t high,
                                         int32_t zero, int8_t *first, int8_t *second) {
    int8_t *const lines[2] = {first, second};
    for (uint32_t f = 0; f < count; f += 4) {
        const mve_pred16_t some = vctp32q(count - f);
        const float32x4_t times = vldrwq_z_f32(ratio + f, some);
        const int32x4x2_t both = vld2q_s32(sums + 2 * f);
        for (uint32_t j = 0; j < 2; j++) {
            int32x4_t whole = vcvtnq_s32_f32(vmulq_f32(vcvtq_f32_s32(both.val[j]), times));
            whole = vminq_s32(vmaxq_s32(whole, vdupq_n_s32(low)), vdupq_n_s32(high));
            vstrbq_p_s32(lines[j] + f, vaddq_n_s32(whole, zero), some);
        }
    }
}

#elif defined(__ARM_FEATURE_SIMD32) && defined(__ARM_FEATURE_UNALIGNED) && defined(__GNUC__) && !defined(__ARM_BIG_ENDIAN)
#define DOT_PAIRS

/* Spreads `words` fours of X to every other two words of `to`. */
static inline void spread_i8(const int8_t *x, uint32_t words, uint32_t *to) {
#define SPREAD_FOUR(place) "ldr %[a], [%[x]], #4\n sxtb16 %[b], %[a], ror #8\n sxtb16 %[a], %[a]\n strd %[a], %[b], [%[to], #" place "]\n"
    uint32_t a, b;
    for (; words >= 4; words -= 4, to += 16)
        __asm__ volatile(SPREAD_FOUR("0") SPREAD_FOUR("16") SPREAD_FOUR("32") SPREAD_FOUR("48")
                         : [x] "+r"(x), [a] "=&r"(a), [b] "=&r"(b) : [to] "r"(to) : "memory");
    for (; words > 0; words--, to += 4)
        __asm__ volatile(SPREAD_FOUR("0") : [x] "+r"(x), [a] "=&r"(a), [b] "=&r"(b) : [to] "r"(to) : "memory");
#undef SPREAD_FOUR
}

/* The same of `words` fours of one number. */
static inline void spread_one_i8(int32_t number, uint32_t words, uint32_t *to) {
    const uint32_t pair = (uint16_t)number * 0x10001u;
    for (; words > 0; words--, to += 4) __asm__ volatile("strd %[pair], %[pair], [%[to]]\n" : : [pair] "r"(pair), [to] "r"(to) : "memory");
}

/* Of two windows the products with pairs of filters: `sixteens` times sixteen numbers of each, and `fours` times four. */
typedef struct {
    const uint32_t *spread;
    const int8_t *w; /* moves with the pairs, as the sums do */
    uint32_t w_m;    /* from filter to filter */
    int32_t *sums;   /* of both windows, filter by filter */
    uint32_t sixteens, fours, pairs;
    uint32_t saved[9];
} dots_i8_t;

/* All registers are taken, so none is left to the compiler. Windows in r3 to r6, sums in r7 to r10, filters at r1 and r2. The fifth
 * argument lies on the caller's stack, where it is found again: the function has no stack of its own, of which a compiler that is
 * not asked for one would not tell. */
static __attribute__((naked, noinline, used)) void dot_pairs_i8(uint32_t a, uint32_t b, uint32_t c, uint32_t d, dots_i8_t *p) {
#define DOT_FILTER(filter, first, second)                                                                              \
    "ldr r11, [" filter "], #4\n sxtb16 r12, r11, ror #8\n sxtb16 r11, r11\n"                                          \
    "smlad " first ", r11, r3, " first "\n smlad " second ", r11, r5, " second "\n"                                    \
    "smlad " first ", r12, r4, " first "\n smlad " second ", r12, r6, " second "\n"
#define DOT_FOUR "ldmia r0!, {r3, r4, r5, r6}\n" DOT_FILTER("r1", "r7", "r8") DOT_FILTER("r2", "r9", "r10")
    (void)a, (void)b, (void)c, (void)d, (void)p;
    __asm__ volatile(
        "ldr r12, [sp]\n add r3, r12, #28\n stmia r3, {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n"
        "1: ldmia r12, {r0, r1, r2, lr}\n add r2, r1, r2\n ldmia lr, {r7, r8, r9, r10}\n"
        "ldr lr, [r12, #16]\n cmp lr, #0\n beq 3f\n"
        "2:" DOT_FOUR DOT_FOUR DOT_FOUR DOT_FOUR "subs lr, lr, #1\n bne 2b\n ldr r12, [sp]\n"
        "3: ldr lr, [r12, #20]\n cmp lr, #0\n beq 5f\n"
        "4:" DOT_FOUR "subs lr, lr, #1\n bne 4b\n ldr r12, [sp]\n"
        "5: ldr lr, [r12, #12]\n stmia lr!, {r7, r8, r9, r10}\n str lr, [r12, #12]\n"
        "ldrd r1, r2, [r12, #4]\n add r1, r1, r2, lsl #1\n str r1, [r12, #4]\n"
        "ldr lr, [r12, #24]\n subs lr, lr, #1\n str lr, [r12, #24]\n bne 1b\n"
        "add r3, r12, #28\n ldmia r3, {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n"
        : : : "memory");
#undef DOT_FILTER
#undef DOT_FOUR
}
#endif

#endif
