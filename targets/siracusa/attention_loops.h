/* Products of rows with a matrix in the cluster's hardware loops; attention_rows_f32.h says what they do. */
#ifndef ATTENTION_LOOPS_H
#define ATTENTION_LOOPS_H

#include "line_sums.h"
#include "matrix_epilogue.h"
#include "row_powers.h"

static __attribute__((noinline)) void product_row(float *y, uint32_t n, const float *a, const float *b, uint32_t b_k,
                                                  uint32_t b_n, uint32_t count) {
    const steps_t step = {4, 4 * b_k, 4 * b_n};
    for (uint32_t j = 0; j < n; j += 4) {
        const uint32_t width = hal_min(n - j, 4);
        float sums[4] = {0};
        add_4(&step, hal_min(count, PRODUCTS_BLOCK), a, b + j * b_n, sums, width);
        for (uint32_t done = PRODUCTS_BLOCK; done < count; done += PRODUCTS_BLOCK) {
            float block[4] = {0};
            add_4(&step, hal_min(count - done, PRODUCTS_BLOCK), a + done, b + j * b_n + done * b_k, block, width);
            sums[0] += block[0], sums[1] += block[1], sums[2] += block[2], sums[3] += block[3];
        }
        y[j] = sums[0];
        if (width > 1) y[j + 1] = sums[1];
        if (width > 2) y[j + 2] = sums[2];
        if (width > 3) y[j + 3] = sums[3];
    }
}

static inline four_t add_products(four_t sums, const float *a, const float *b, uint32_t b_k, uint32_t count) {
    const steps_t step = {4, 4 * b_k, 4};
    float s[4] = {sums.a, sums.b, sums.c, sums.d};
    add_4(&step, count, a, b, s, 4);
    return (four_t){s[0], s[1], s[2], s[3]};
}

static inline __attribute__((always_inline)) void block_products(float *y, uint32_t y_m, const factors_t *p, uint32_t count,
                                                                 uint32_t continues) {
    float sums[4][4];
    const product_t product = {p->a, p->b, 4 * p->a_m, 4, 4 * p->b_k, 4 * p->b_n, count};
    gemm_block(&product, continues ? y : 0, 4 * y_m, sums);
    put_rows(sums, y, y_m);
}

/* x = alpha x + mask, less the largest score of each query. */
static inline void below_row(float *x, uint32_t count, float alpha, const float *mask, uint32_t mask_next, const float *stats,
                             uint32_t stats_next) {
#define BELOW(ADD_MASK, n)                                                                                            \
    __asm__ volatile(LOOP("%[count]", 7 + n)                                                                          \
                     FLW("ft0", "%[x]", 0) FLW("ft1", "%[stats]", 0) "fmul.s ft0, ft0, %[alpha]\n" ADD_MASK           \
                     ADD("%[stats]", "%[next]") "fsub.s ft0, ft0, ft1\n" FSW("ft0", "%[x]", 0) ADDI("%[x]", 4)        \
                     LOOP_END(7 + n)                                                                                  \
                     : [x] "+&r"(x), [stats] "+&r"(stats), [mask] "+&r"(mask)                                         \
                     : [count] "r"(count), [alpha] "f"(alpha), [next] "r"(4 * stats_next), [mask_next] "r"(4 * mask_next) \
                     : "ft0", "ft1", "ft2", "memory")
    if (mask)
        BELOW(FLW("ft2", "%[mask]", 0) ADD("%[mask]", "%[mask_next]") "fadd.s ft0, ft0, ft2\n", 3);
    else
        BELOW("", 0);
}

/* The shares of four keys, and the gradients of their scores, by one query whose inverse sum is a usual one. */
#define SHARE_STEP                                                                                                    \
    FLW("ft0", "%[share]", 0) FLW("ft1", "%[slope]", 0) "fmul.s ft2, ft0, %[inverse]\n fnmsub.s ft0, ft2, %[sum], ft0\n" \
    "fsub.s ft1, ft1, %[dot]\n fmadd.s ft2, ft0, %[inverse], ft2\n fmul.s ft1, ft2, ft1\n" FSW("ft2", "%[share]", 0)  \
    ADD("%[share]", "%[next]") "fmul.s ft1, ft1, %[alpha]\n" FSW("ft1", "%[slope]", 0) ADD("%[slope]", "%[next]")

static inline void score_columns(const scores_t *p, float *shares, float *slopes, uint32_t rows, uint32_t length, uint32_t count) {
    const float *stats = p->stats, *dot = p->dot, one = LITERAL_F32(1.0f), zero = float_in_fpu(0), alpha = p->alpha;
    uint32_t least = NO_POWER;
    for (uint32_t m = 0; m < rows; m++) {
        float *row = shares + m * length, *from = row, sum = 0.0f;
        below_row(row, count, alpha, p->mask ? p->mask + m : 0, p->mask_next, stats, p->stats_next);
        ADD_POWERS("", 0, sum, row, 1, from, 1, count, zero, zero, least);
    }
    for (uint32_t t = 0; t < count; t++, shares++, slopes++, stats += p->stats_next, dot += p->dot_next) {
        const float sum = stats[1];
        float *share = shares, *slope = slopes;
        if (SELDOM(least < USUAL_POWER || !(sum >= one))) { /* a hidden query has the sum 0 */
            for (uint32_t m = 0; m < rows; m++, share += length, slope += length) {
                *share = bits_in_core(sum) == 0 ? sum : *share / sum;
                *slope = *share * (*slope - *dot) * alpha;
            }
            continue;
        }
        const float inverse = inverse_of(sum);
        __asm__ volatile(LOOP("%[rows]", 12) SHARE_STEP LOOP_END(12)
                         : [share] "+&r"(share), [slope] "+&r"(slope)
                         : [inverse] "f"(inverse), [sum] "f"(sum), [dot] "f"(*dot), [alpha] "f"(alpha), [next] "r"(4 * length),
                           [rows] "r"(rows)
                         : "ft0", "ft1", "ft2", "memory");
    }
}

static inline float add_dot(float sum, const float *a, const float *b, uint32_t count) {
    __asm__ volatile(LOOP("%[count]", 5)
                     FLW("ft0", "%[a]", 0) FLW("ft1", "%[b]", 0) ADDI("%[a]", 4) ADDI("%[b]", 4) FMA("%[sum]", "ft0", "ft1")
                     LOOP_END(5)
                     : [a] "+&r"(a), [b] "+&r"(b), [sum] "+&f"(sum) : [count] "r"(count) : "ft0", "ft1", "memory");
    return sum;
}

static inline void slope_row(float *shares, const float *slopes, float dot, float alpha, uint32_t count) {
    __asm__ volatile(LOOP("%[count]", 8)
                     FLW("ft0", "%[slopes]", 0) FLW("ft1", "%[shares]", 0) ADDI("%[slopes]", 4) "fsub.s ft0, ft0, %[dot]\n"
                     "fmul.s ft0, ft1, ft0\n fmul.s ft0, ft0, %[alpha]\n" FSW("ft0", "%[shares]", 0) ADDI("%[shares]", 4)
                     LOOP_END(8)
                     : [shares] "+&r"(shares), [slopes] "+&r"(slopes)
                     : [dot] "f"(dot), [alpha] "f"(alpha), [count] "r"(count) : "ft0", "ft1", "memory");
}

/* 2^32 less twice the bits of x, in 32 bits: 0 for a zero, at most 2^24 for what is not finite, more for all others. */
static inline uint32_t is_plain(const float *y, uint32_t count) {
    uint32_t least = 0xffffffffu;
    __asm__ volatile(LOOP("%[count]", 5)
                     "lw t0, 0(%[y])\n" ADDI("%[y]", 4) "slli t0, t0, 1\n neg t0, t0\n" MIN_UNSIGNED("%[least]", "%[least]", "t0")
                     LOOP_END(5)
                     : [y] "+&r"(y), [least] "+&r"(least) : [count] "r"(count) : "t0", "memory");
    return least > 0x01000000u;
}

#endif
