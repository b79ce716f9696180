/* Sums of products of 8-bit numbers, by what a machine has for them. A sum is exact, so all ways give the same bits.
 *
 * DOT_PAIRS: Arm's instructions for pairs of 16 bits. Numbers of a window are spread to 16 bits once, for four windows side by side:
 * of four numbers the first and the third are a word, the second and the fourth the next one, as the instruction that spreads a
 * filter's numbers has them; then the same of the other windows.
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

/* Rounds the products of sums with ratios into one line or two, as requantize_i8.h has it for ratios that are numbers. */
static inline void results_of_vectors_i8(const int32_t *sums, const float *ratio, uint32_t count, int32_t low, int32_t high,
                                         int32_t zero, uint32_t windows, int8_t *const *lines) {
    for (uint32_t f = 0; f < count; f += 4) {
        const mve_pred16_t some = vctp32q(count - f);
        const float32x4_t times = vldrwq_z_f32(ratio + f, some);
        const int32x4x2_t both = vld2q_s32(sums + 2 * f);
        for (uint32_t j = 0; j < windows; j++) {
            int32x4_t whole = vcvtnq_s32_f32(vmulq_f32(vcvtq_f32_s32(both.val[j]), times));
            whole = vminq_s32(vmaxq_s32(whole, vdupq_n_s32(low)), vdupq_n_s32(high));
            vstrbq_p_s32(lines[j] + f, vaddq_n_s32(whole, zero), some);
        }
    }
}

#elif defined(__ARM_FEATURE_SIMD32) && defined(__ARM_FEATURE_UNALIGNED) && defined(__GNUC__) && !defined(__ARM_BIG_ENDIAN)
#define DOT_PAIRS

/* Spreads `words` fours of X to two words of every eight of `to`. */
static inline void spread_i8(const int8_t *x, uint32_t words, uint32_t *to) {
#define SPREAD_FOUR(place) "ldr %[a], [%[x]], #4\n sxtb16 %[b], %[a], ror #8\n sxtb16 %[a], %[a]\n strd %[a], %[b], [%[to], #" place "]\n"
    uint32_t a, b;
    for (; words >= 4; words -= 4, to += 32)
        __asm__ volatile(SPREAD_FOUR("0") SPREAD_FOUR("32") SPREAD_FOUR("64") SPREAD_FOUR("96")
                         : [x] "+r"(x), [a] "=&r"(a), [b] "=&r"(b) : [to] "r"(to) : "memory");
    for (; words > 0; words--, to += 8)
        __asm__ volatile(SPREAD_FOUR("0") : [x] "+r"(x), [a] "=&r"(a), [b] "=&r"(b) : [to] "r"(to) : "memory");
#undef SPREAD_FOUR
}

/* The same of `words` fours of one number. */
static inline void spread_one_i8(int32_t number, uint32_t words, uint32_t *to) {
    const uint32_t pair = (uint16_t)number * 0x10001u;
    for (; words > 0; words--, to += 8) __asm__ volatile("strd %[pair], %[pair], [%[to]]\n" : : [pair] "r"(pair), [to] "r"(to) : "memory");
}

/* Of windows the products with filters: `sixteens` times sixteen numbers of each, and `fours` times four; one four at least. */
typedef struct {
    const uint32_t *spread;
    int32_t *sums; /* of all windows, filter by filter; moves with the filters, as `w` does */
    const int8_t *w;
    uint32_t w_m;  /* from filter to filter, or from the end of one to the next */
    uint32_t sixteens, fours; /* dot_fours_i8 changes them */
    const int32_t *end; /* of the sums */
    uint32_t saved[9];
} dots_i8_t;

/* All registers are taken, so none is left to the compiler. The fifth argument lies on the caller's stack: the function has no stack
 * of its own, of which a compiler that is not asked for one would not tell. The struct stands in r2, the windows in r3 to r6 by turns,
 * sums in r7 to r10, a filter in r11 and r12. */
#define SAVED "r4, r5, r6, r7, r8, r9, r10, r11"
static __attribute__((naked, noinline, used)) void dot_fours_i8(uint32_t a, uint32_t b, uint32_t c, uint32_t d, dots_i8_t *p) {
#define DOT_WINDOWS(first, second)                                                                                     \
    "ldmia r0!, {r3, r4, r5, r6}\n smlad " first ", r11, r3, " first "\n smlad " second ", r11, r5, " second "\n"       \
    "smlad " first ", r12, r4, " first "\n smlad " second ", r12, r6, " second "\n"
#define DOT_FOUR                                                                                                       \
    "ldr r11, [r1], #4\n sxtb16 r12, r11, ror #8\n sxtb16 r11, r11\n" DOT_WINDOWS("r7", "r8") DOT_WINDOWS("r9", "r10")
#define DOT_LENGTH "48" /* bytes of DOT_FOUR */
    (void)a, (void)b, (void)c, (void)d, (void)p;
    __asm__ volatile( /* eight fours a turn; the first turn begins behind those that there are not */
        "ldr r2, [sp]\n add r3, r2, #28\n stmia r3, {" SAVED ", lr}\n"
        "ldrd r4, r5, [r2, #16]\n add r4, r5, r4, lsl #2\n sub r5, r4, #1\n and r5, r5, #7\n rsb r5, r5, #7\n mov r6, #" DOT_LENGTH "\n"
        "add r4, r4, #7\n lsr r4, r4, #3\n adr r3, 2f\n mla r5, r5, r6, r3\n orr r5, r5, #1\n strd r4, r5, [r2, #16]\n ldr r1, [r2, #8]\n"
        "1: ldrd r0, r3, [r2]\n ldrd lr, r4, [r2, #16]\n ldmia r3, {r7, r8, r9, r10}\n bx r4\n"
        ".balign 4\n 2:" DOT_FOUR DOT_FOUR DOT_FOUR DOT_FOUR DOT_FOUR DOT_FOUR DOT_FOUR DOT_FOUR "3: subs lr, lr, #1\n bne 2b\n"
        ".if 3b - 2b != 8 * " DOT_LENGTH "\n.error \"length of four products\"\n.endif\n"
        "ldr r3, [r2, #4]\n ldr r4, [r2, #12]\n ldr r5, [r2, #24]\n stmia r3!, {r7, r8, r9, r10}\n str r3, [r2, #4]\n"
        "add r1, r1, r4\n cmp r3, r5\n bne 1b\n"
        "add r3, r2, #28\n ldmia r3, {" SAVED ", pc}\n"
        : : : "memory");
#undef DOT_LENGTH
#undef DOT_FOUR
#undef DOT_WINDOWS
}

/* The same of the first two windows, for which filters come in pairs: those of the second one are at r2, the struct's place is found
 * again on the stack. */
static __attribute__((naked, noinline, used)) void dot_pairs_i8(uint32_t a, uint32_t b, uint32_t c, uint32_t d, dots_i8_t *p) {
#define DOT_FILTER(filter, first, second)                                                                              \
    "ldr r11, [" filter "], #4\n sxtb16 r12, r11, ror #8\n sxtb16 r11, r11\n"                                          \
    "smlad " first ", r11, r3, " first "\n smlad " second ", r11, r5, " second "\n"                                    \
    "smlad " first ", r12, r4, " first "\n smlad " second ", r12, r6, " second "\n"
#define DOT_FOUR "ldmia r0, {r3, r4, r5, r6}\n add r0, r0, #32\n" DOT_FILTER("r1", "r7", "r8") DOT_FILTER("r2", "r9", "r10")
    (void)a, (void)b, (void)c, (void)d, (void)p;
    __asm__ volatile(
        "ldr r12, [sp]\n add r3, r12, #28\n stmia r3, {" SAVED ", lr}\n"
        "1: ldmia r12, {r0, r3}\n ldrd r1, r2, [r12, #8]\n add r2, r1, r2\n ldrd r7, r8, [r3]\n ldrd r9, r10, [r3, #16]\n"
        "ldr lr, [r12, #16]\n cmp lr, #0\n beq 3f\n"
        "2:" DOT_FOUR DOT_FOUR DOT_FOUR DOT_FOUR "subs lr, lr, #1\n bne 2b\n ldr r12, [sp]\n"
        "3: ldr lr, [r12, #20]\n cmp lr, #0\n beq 5f\n"
        "4:" DOT_FOUR "subs lr, lr, #1\n bne 4b\n ldr r12, [sp]\n"
        "5: ldr r3, [r12, #4]\n strd r7, r8, [r3]\n strd r9, r10, [r3, #16]\n add r3, r3, #32\n str r3, [r12, #4]\n"
        "ldrd r1, r2, [r12, #8]\n add r1, r1, r2, lsl #1\n str r1, [r12, #8]\n"
        "ldr lr, [r12, #24]\n cmp r3, lr\n bne 1b\n"
        "add r3, r12, #28\n ldmia r3, {" SAVED ", pc}\n"
        : : : "memory");
#undef DOT_FILTER
#undef DOT_FOUR
}
#undef SAVED

/* Writes each of `count` numbers, one at least, four times. */
static inline void fourfold_i32(const int32_t *from, uint32_t count, int32_t *to) {
    int32_t value;
    __asm__ volatile("1: ldr %[value], [%[from]], #4\n strd %[value], %[value], [%[to]], #8\n strd %[value], %[value], [%[to]], #8\n"
                     "subs %[count], %[count], #1\n bne 1b\n"
                     : [from] "+r"(from), [to] "+r"(to), [count] "+r"(count), [value] "=&r"(value) : : "cc", "memory");
}

#if defined(__ARM_FP) && defined(__OPTIMIZE__)
#define DOT_RESULTS /* they take more registers than a compiler leaves that does not optimize */
/* Rounds the products of sums of four windows with ratios into four lines, between bounds of all 8 bits: `count` filters, one at
 * least. */
static __attribute__((noinline)) void saturated_fours_i8(const int32_t *sums, const float *ratio, uint32_t count, int32_t zero, int8_t *const *lines) {
#define IN_FLOATS(do) do("s0") do("s1") do("s2") do("s3")
#define ROUNDED_ONE(s) "vcvt.f32.s32 " s ", " s "\n vmul.f32 " s ", " s ", s4\n vcvtr.s32.f32 " s ", " s "\n"
#define STORED(r, y) "qadd " r ", " r ", %[zero]\n ssat " r ", #8, " r "\n strb " r ", [%[" y "]], #1\n"
    int8_t *y0 = lines[0], *y1 = lines[1], *y2 = lines[2], *y3 = lines[3];
    int32_t a, b;
    __asm__ volatile(
        "1: vldmia %[ratio]!, {s4}\n vldmia %[sums]!, {s0-s3}\n" IN_FLOATS(ROUNDED_ONE)
        "vmov %[a], %[b], s0, s1\n" STORED("%[a]", "y0") STORED("%[b]", "y1")
        "vmov %[a], %[b], s2, s3\n" STORED("%[a]", "y2") STORED("%[b]", "y3")
        "subs %[count], %[count], #1\n bne 1b\n"
        : [sums] "+r"(sums), [ratio] "+r"(ratio), [count] "+r"(count), [y0] "+r"(y0), [y1] "+r"(y1), [y2] "+r"(y2), [y3] "+r"(y3),
          [a] "=&r"(a), [b] "=&r"(b)
        : [zero] "r"(zero) : "s0", "s1", "s2", "s3", "s4", "cc", "memory");
#undef IN_FLOATS
#undef ROUNDED_ONE
#undef STORED
}
#endif
#endif

#endif
