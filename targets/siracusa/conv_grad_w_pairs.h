/* Part of conv_grad_w.h: three taps of four outputs, for whole rows of dY by pairs of columns, which share values
 * of X. All rows are one loop of fewer than 512 bytes, as much as a core's cache holds. */
#ifndef CONV_GRAD_W_PAIRS_H
#define CONV_GRAD_W_PAIRS_H

/* Columns with dY in fa0 .. fa3 and in fa4 .. fa7, and values of X from ft0 on. */
#define DY(m, to, at) FLW("fa" #to, "t" #m, at)
#define VALUE(k, at) FLW("ft" #k, "t4", at)
#define SUM(m, k, d, x) FMA("%[s" #m #k "]", "fa" #d, "ft" #x)
#define SUMS_B(k, x) SUM(0, k, 4, x) SUM(1, k, 5, x) SUM(2, k, 6, x) SUM(3, k, 7, x)

/* A first column with all taps, or without its first one; `d` and `at` bytes on in dY and X. Each loads a part of what
 * the second column needs. */
#define COLUMN_A(d, at)                                                                                               \
    VALUE(0, at) DY(0, 0, d) DY(1, 1, d) SUM(0, 0, 0, 0) DY(2, 2, d) SUM(1, 0, 1, 0) DY(3, 3, d) SUM(2, 0, 2, 0)      \
    VALUE(1, at + 4) SUM(3, 0, 3, 0) SUM(0, 1, 0, 1) VALUE(2, at + 8) SUM(1, 1, 1, 1) SUM(2, 1, 2, 1)                 \
    DY(0, 4, d + 4) SUM(3, 1, 3, 1) SUM(0, 2, 0, 2) DY(1, 5, d + 4) SUM(1, 2, 1, 2) SUM(2, 2, 2, 2)                   \
    DY(2, 6, d + 4) SUM(3, 2, 3, 2)
#define COLUMN_A_BEGIN                                                                                                \
    VALUE(1, 4) DY(0, 0, 0) DY(1, 1, 0) SUM(0, 1, 0, 1) DY(2, 2, 0) SUM(1, 1, 1, 1) DY(3, 3, 0) SUM(2, 1, 2, 1)       \
    VALUE(2, 8) SUM(3, 1, 3, 1) DY(0, 4, 4) SUM(0, 2, 0, 2) DY(1, 5, 4) SUM(1, 2, 1, 2) DY(2, 6, 4) SUM(2, 2, 2, 2)   \
    SUM(3, 2, 3, 2)
/* The second column, with all taps; the steps go to the next pair. */
#define COLUMN_B(d, x0, x1, x2, loads, step0, step1, step2)                                                           \
    DY(3, 7, d + 4) SUM(0, 0, 4, x0) SUM(1, 0, 5, x0) loads SUM(2, 0, 6, x0) SUM(3, 0, 7, x0) step0 SUM(0, 1, 4, x1)  \
    SUM(1, 1, 5, x1) step1 SUM(2, 1, 6, x1) SUM(3, 1, 7, x1) step2 SUMS_B(2, x2)

/* Where a window moves by one column: the last pair lacks the last tap of its last column. */
#define BEGIN_1 COLUMN_A_BEGIN COLUMN_B(0, 1, 2, 3, VALUE(3, 12), "", "", "")
#define STEP(m) ADDI("t" #m, 8)
#define MIDDLE_1                                                                                                      \
    COLUMN_A(8, 8) COLUMN_B(8, 1, 2, 3, VALUE(3, 20), STEP(0) STEP(1), STEP(2) STEP(3), STEP(4))
#define END_1                                                                                                         \
    COLUMN_A(8, 8) DY(3, 7, 12) SUM(0, 0, 4, 1) SUM(1, 0, 5, 1) SUM(2, 0, 6, 1) SUM(3, 0, 7, 1) SUMS_B(1, 2)
/* Where it moves by two: the last pair lacks nothing. */
#define BEGIN_2 COLUMN_A_BEGIN COLUMN_B(0, 2, 3, 4, VALUE(3, 12) VALUE(4, 16), "", "", "")
#define MIDDLE_2                                                                                                      \
    COLUMN_A(8, 16)                                                                                                   \
    COLUMN_B(8, 2, 3, 4, VALUE(3, 28) VALUE(4, 32), STEP(0) STEP(1), STEP(2) STEP(3), ADDI("t4", 16))

/* Rows of dY and of X, whose column -1 is the first; `pairs` in the middle; from a row's last pair to the next row. */
typedef struct {
    const float *dy, *x, *sums;
    uint32_t dy_m, dw_m, pairs, dy_gap, x_gap, rows; /* steps in bytes */
} pairs_t;

#define ZEROS(m) "fmv.w.x %[s" #m "0], zero\n fmv.w.x %[s" #m "1], zero\n fmv.w.x %[s" #m "2], zero\n"
#define SUMS_IN(m) FLW("%[s" #m "0]", "t0", 0) FLW("%[s" #m "1]", "t0", 4) FLW("%[s" #m "2]", "t0", 8)
#define PAIRS(n, begin, middle, end)                                                                                  \
    __asm__ volatile(                                                                                                 \
        "lw t0, 8(%[p])\n lw t5, 12(%[p])\n lw t4, 4(%[p])\n bnez t0, 3f\n" ZEROS(0) ZEROS(1) ZEROS(2) ZEROS(3)       \
        "2: lw t0, 0(%[p])\n lw a6, 20(%[p])\n add t1, t0, t5\n add t2, t1, t5\n add t3, t2, t5\n"                    \
        "lw t5, 24(%[p])\n lw t6, 28(%[p])\n lw a7, 32(%[p])\n"                                                       \
        "1:\n" begin LOOP("a6", n) middle LOOP_END(n) end ADD("t0", "t5") ADD("t1", "t5") ADD("t2", "t5")             \
        ADD("t3", "t5") ADD("t4", "t6") ADDI("a7", -1) "bnez a7, 1b\n"                                                \
        ".subsection 1\n3: lw t1, 16(%[p])\n"                                                                         \
        SUMS_IN(0) ADD("t0", "t1") SUMS_IN(1) ADD("t0", "t1") SUMS_IN(2) ADD("t0", "t1") SUMS_IN(3) "j 2b\n.previous\n"\
        : [s00] "=&f"(s[0][0]), [s01] "=&f"(s[0][1]), [s02] "=&f"(s[0][2]), [s10] "=&f"(s[1][0]),                     \
          [s11] "=&f"(s[1][1]), [s12] "=&f"(s[1][2]), [s20] "=&f"(s[2][0]), [s21] "=&f"(s[2][1]),                     \
          [s22] "=&f"(s[2][2]), [s30] "=&f"(s[3][0]), [s31] "=&f"(s[3][1]), [s32] "=&f"(s[3][2])                      \
        : [p] "r"(&p)                                                                                                 \
        : "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a6", "a7", "ft0", "ft1", "ft2", "ft3", "ft4", "fa0", "fa1",      \
          "fa2", "fa3", "fa4", "fa5", "fa6", "fa7", "memory")

/* One block of rows, to what waits in dW: a first pair that lacks one tap, others, and with windows that move by one a last
 * one that does. */
static __attribute__((noinline, unused)) void block_pairs(const view_t *v, const float *dy, const float *x, float *dw) {
    const uint32_t dw_m = v->dw_m, narrow = v->sw == 1, count = (v->columns >> 1) - 1 - narrow;
    float s[4][3];
    if (v->rows == 0) { /* all that a sum has in its first block */
        for (uint32_t m = 0; !v->goes_on && m < 4; m++, dw += dw_m)
            for (uint32_t k = 0; k < 3; k++) dw[k] = STEPS && !v->several ? __builtin_fmaf(-v->rate, 0.0f, dw[k]) : 0.0f;
        return;
    }
    const pairs_t p = {dy, x - 1, v->goes_on ? dw : 0, 4 * v->dy_m, 4 * dw_m, count, 4 * v->dy_h - 8 * count,
                       4 * v->x_h - (narrow ? 8 : 16) * count, v->rows};
    if (narrow)
        PAIRS(41, BEGIN_1, MIDDLE_1, END_1);
    else
        PAIRS(42, BEGIN_2, MIDDLE_2, "");
    UNROLL for (uint32_t m = 0; m < 4; m++, dw += dw_m) {
        if (__builtin_expect(!v->fresh, 0)) {
            UNROLL for (uint32_t k = 0; k < 3; k++) s[m][k] += dw[k];
        }
        if (STEPS && !v->several) {
            UNROLL for (uint32_t k = 0; k < 3; k++) s[m][k] = __builtin_fmaf(-v->rate, s[m][k], dw[k]);
        }
        UNROLL for (uint32_t k = 0; k < 3; k++) dw[k] = s[m][k];
    }
}

#endif
