/* Sums of products of 8-bit numbers, by what a machine has for them. A sum is exact, so all ways give the same bits.
 *
 * DOT_PAIRS: Arm's instructions for pairs of 16 bits. Numbers of a window are spread to 16 bits once, for two windows side by side:
 * of four numbers the first and the third are a word, the second and the fourth the next one, as the instruction that spreads a
 * filter's numbers has them; then the same of the other window.
 * DOT_VECTORS: Arm's vectors of 16 numbers. */
#ifndef DOT_I8_H
#define DOT_I8_H

#include <stdint.h>

#if defined(__ARM_FEATURE_MVE) && !defined(__ARM_BIG_ENDIAN)
#define DOT_VECTORS
#include <arm_mve.h>

/* Adds the products of `count` numbers of X with those of four filters, w_m numbers apart. */
static inline void dot_vectors_i8(const int8_t *x, const int8_t *w, uint32_t w_m, uint32_t count, int32_t *sums) {
    const int8_t *w1 = w + w_m, *w2 = w1 + w_m, *w3 = w2 + w_m;
    int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
    for (uint32_t left = count, i = 0; i < count; i += 16, left -= 16) {
        const mve_pred16_t some = vctp8q(left);
        const int8x16_t values = vldrbq_z_s8(x + i, some);
        a = vmladavaq_p_s8(a, values, vldrbq_z_s8(w + i, some), some);
        b = vmladavaq_p_s8(b, values, vldrbq_z_s8(w1 + i, some), some);
        c = vmladavaq_p_s8(c, values, vldrbq_z_s8(w2 + i, some), some);
        d = vmladavaq_p_s8(d, values, vldrbq_z_s8(w3 + i, some), some);
    }
    sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
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

/* Adds the products of `words` fours of two windows with those of two filters; sums of the first filter come first. Returns the
 * end of the windows. */
static inline const uint32_t *dot_pairs_i8(const uint32_t *x, const int8_t **w, uint32_t words, int32_t *sums) {
#define DOT_FILTER(filter, first, second)                                                                                          \
    "ldr %[a], [%[" filter "]], #4\n sxtb16 %[b], %[a], ror #8\n sxtb16 %[a], %[a]\n"                                              \
    "smlad %[" first "], %[a], r3, %[" first "]\n smlad %[" second "], %[a], r5, %[" second "]\n"                                  \
    "smlad %[" first "], %[b], r4, %[" first "]\n smlad %[" second "], %[b], r6, %[" second "]\n"
#define DOT_FOUR "ldmia %[x]!, {r3, r4, r5, r6}\n" DOT_FILTER("w0", "s00", "s01") DOT_FILTER("w1", "s10", "s11")
#define DOT_OPERANDS                                                                                                               \
    : [x] "+r"(x), [w0] "+r"(w0), [w1] "+r"(w1), [s00] "+r"(s00), [s01] "+r"(s01), [s10] "+r"(s10), [s11] "+r"(s11),               \
      [a] "=&r"(a), [b] "=&r"(b) : : "r3", "r4", "r5", "r6", "memory"
    const int8_t *w0 = w[0], *w1 = w[1];
    int32_t s00 = sums[0], s01 = sums[1], s10 = sums[2], s11 = sums[3];
    uint32_t a, b;
    for (uint32_t fours = words >> 2; fours > 0; fours--) __asm__ volatile(DOT_FOUR DOT_FOUR DOT_FOUR DOT_FOUR DOT_OPERANDS);
    for (words &= 3; words > 0; words--) __asm__ volatile(DOT_FOUR DOT_OPERANDS);
    w[0] = w0, w[1] = w1;
    sums[0] = s00, sums[1] = s01, sums[2] = s10, sums[3] = s11;
    return x;
#undef DOT_FILTER
#undef DOT_FOUR
#undef DOT_OPERANDS
}
#endif

#endif
