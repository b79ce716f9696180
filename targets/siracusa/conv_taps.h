/* Part of conv.h: the sums of a block over all taps, of four channels by four outputs, and of four sums that share a factor. */
#ifndef CONV_TAPS_H
#define CONV_TAPS_H

#include "scheduled_taps.h"

/* Channels, rows and columns of taps as loops in each other, the innermost first: how often each runs, and the steps of the
 * operand and of the weights behind a turn, in bytes. A loop of one turn is left out, so that the innermost one is long, and
 * that of columns where a row of `taps` is code without a loop; what is left over runs once. Loop `channels` has no count: a
 * sum may have several blocks of them. The last one is no loop of the hardware, and does not run where there is no tap. */
typedef struct {
    uint32_t count[3], channels, taps;
    int32_t x[3], w[3];
} nest_t;

/* Where a block begins, of four channels by four outputs: taps and results of each of its outputs in the first of its channels,
 * and that one's weights and bias; and whether sums begin with what waits in Y, or add it at the end. In a block of four sums
 * `x` is where the factors of each begin, and `w` where those begin which they share. Code in assembly knows the places. */
typedef struct {
    const float *x[4];
    float *y[4];
    const float *w, *bias;
    uint32_t goes_on, adds, w_m, y_m, bias_step; /* steps in bytes */
} block_t;

static __attribute__((noinline)) void make_nest(nest_t *to, const rectangle_t *r, const int32_t x[3], const int32_t w[3],
                                                uint32_t taps) {
    const uint32_t counts[2] = {r->w, r->h}, empty = r->h == 0;
    int32_t back_x = 0, back_w = 0;
    uint32_t i = 0;
    to->taps = empty ? 0 : taps;
    for (uint32_t axis = 0; axis < 3; axis++) {
        if (axis < 2 && (empty || (taps ? axis == 0 : counts[axis] == 1))) continue;
        to->x[i] = 4 * (x[axis] - back_x), to->w[i] = 4 * (w[axis] - back_w);
        if (axis == 2) break;
        to->count[i++] = counts[axis], back_x = (int32_t)counts[axis] * x[axis], back_w = (int32_t)counts[axis] * w[axis];
    }
    to->channels = i;
    while (++i < 3) to->count[i] = !empty; /* the steps behind the only turn lead nowhere */
}

#define STEP_ALL(w, x)                                                                                                \
    ADD("t0", w) ADD("t1", w) ADD("t2", w) ADD("t3", w) ADD("t4", x) ADD("t5", x) ADD("t6", x) ADD("a7", x)
/* Rows of taps in line, as scheduled_taps.h has them. */
#define WHOLE_ROWS(row)                                                                                               \
    "beqz %[taps], 4f\n" LOOP_OUTER("%[n1]", row##_LENGTH + 9) LOOP("%[n0]", row##_LENGTH) row LOOP_END(row##_LENGTH) \
    STEP_ALL("%[w1]", "%[x1]") LOOP_OUTER_END(row##_LENGTH + 9) "j 5f\n"
#if CONV_TAPS == 3 && CONV_CHANNELS == 4
#define ROWS_IN_LINE WHOLE_ROWS(SIXTEEN_3)
#elif CONV_TAPS == 2 && CONV_CHANNELS == 4 /* of a window that moves by two: weights of every other tap */
#define ROWS_IN_LINE WHOLE_ROWS(SIXTEEN_2)
#else
#define ROWS_IN_LINE
#endif

/* In a2 to a5 where results lie, and in t0 the step to the next row: instructions on these registers are short. */
#define RESULTS "lw a2, 16(%[b])\n lw a3, 20(%[b])\n lw a4, 24(%[b])\n lw a5, 28(%[b])\n lw t0, 52(%[b])\n"
#define NEXT_RESULTS ADD("a2", "t0") ADD("a3", "t0") ADD("a4", "t0") ADD("a5", "t0")
#define BEGIN_WITH(m)                                                                                                 \
    FLW("%[c" #m "0]", "a2", 0) FLW("%[c" #m "1]", "a3", 0) FLW("%[c" #m "2]", "a4", 0) FLW("%[c" #m "3]", "a5", 0)
#define FADD(to, x) "fadd.s " to ", " to ", " x "\n"
#define ADD_ROW(m)                                                                                                    \
    FLW("fa0", "a2", 0) FLW("fa1", "a3", 0) FLW("fa2", "a4", 0) FLW("fa3", "a5", 0) FADD("%[c" #m "0]", "fa0")        \
    FADD("%[c" #m "1]", "fa1") FADD("%[c" #m "2]", "fa2") FADD("%[c" #m "3]", "fa3")
#define ADD_BIAS(m, bias)                                                                                             \
    FADD("%[c" #m "0]", bias) FADD("%[c" #m "1]", bias) FADD("%[c" #m "2]", bias) FADD("%[c" #m "3]", bias)
#if CONV_APART > 0
#define BIAS                                                                                                          \
    "lw a1, 36(%[b])\n beqz a1, 9f\n" FLW("fa0", "a1", 0) FLW("fa1", "a1", 4) FLW("fa2", "a1", 8) FLW("fa3", "a1", 12) \
    ADD_BIAS(0, "fa0") ADD_BIAS(1, "fa1") ADD_BIAS(2, "fa2") ADD_BIAS(3, "fa3") "9: "
#else
#define BIAS
#endif
#define PUT_ROW(m)                                                                                                    \
    FSW("%[c" #m "0]", "a2", 0) FSW("%[c" #m "1]", "a3", 0) FSW("%[c" #m "2]", "a4", 0) FSW("%[c" #m "3]", "a5", 0)

#if CONV_GOES_ON
#define WHEN_IT_GOES_ON(code) code
#else
#define WHEN_IT_GOES_ON(code)
#endif

/* All sums of four channels by four outputs, to Y. What is seldom needed lies behind. */
INLINE void sixteen_sums(const nest_t *n, const block_t *b) {
    register const block_t *const at_b __asm__("s1") = b;
    uint32_t outer = n->count[2];
    float c[4][4];
    __asm__ volatile(
        WHEN_IT_GOES_ON("lw t0, 40(%[b])\n bnez t0, 3f\n")
        ROW_ZERO(c00, c01, c02, c03) ROW_ZERO(c10, c11, c12, c13) ROW_ZERO(c20, c21, c22, c23)
        ROW_ZERO(c30, c31, c32, c33)
        WHEN_IT_GOES_ON(".subsection 1\n3: " RESULTS BEGIN_WITH(0) NEXT_RESULTS BEGIN_WITH(1) NEXT_RESULTS BEGIN_WITH(2)
                        NEXT_RESULTS BEGIN_WITH(3) "j 2f\n.previous\n")
        "2: lui t0, 0x80000\n fmv.w.x ft2, t0\n fmv.w.x ft3, t0\n fmv.w.x fa3, zero\n" /* as in gemm_block */
        "lw t0, 32(%[b])\n lw t3, 48(%[b])\n lw t4, 0(%[b])\n lw t5, 4(%[b])\n lw t6, 8(%[b])\n lw a7, 12(%[b])\n"
        "add t1, t0, t3\n add t2, t1, t3\n add t3, t2, t3\n"
        "beqz %[outer], 5f\n" ROWS_IN_LINE
        "4: " LOOP_OUTER("%[n1]", 41) LOOP("%[n0]", 32) TURN(ADD_A_K) LOOP_END(32) STEP_ALL("%[w1]", "%[x1]")
        LOOP_OUTER_END(41)
        ADDI("%[outer]", -1) STEP_ALL("%[w2]", "%[x2]") "bnez %[outer], 4b\n"
        MAC(23, 2, 3) MAC(33, 3, 3)
        "5: " RESULTS "lw a1, 44(%[b])\n bnez a1, 7f\n8: "
        ".subsection 1\n7: " ADD_ROW(0) NEXT_RESULTS ADD_ROW(1) NEXT_RESULTS ADD_ROW(2) NEXT_RESULTS ADD_ROW(3)
        RESULTS "j 8b\n.previous\n" BIAS
        PUT_ROW(0) NEXT_RESULTS PUT_ROW(1) NEXT_RESULTS PUT_ROW(2) NEXT_RESULTS PUT_ROW(3)
        : SUMS_OUT(c), [outer] "+&r"(outer)
        : [b] "r"(at_b), [n0] "r"(n->count[0]), [n1] "r"(n->count[1]), [b_k] "r"(n->x[0]), [x1] "r"(n->x[1]),
          [x2] "r"(n->x[2]), [a_k] "r"(n->w[0]), [w1] "r"(n->w[1]), [w2] "r"(n->w[2]), [taps] "r"(n->taps)
        : "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a1", "a2", "a3", "a4", "a5", "a7", CLOBBERS);
}

/* Four sums of which each has factors of its own, from four places on, and a factor that all share, from `w` on; to Y. */
#define FOUR_LOOPS(taps) FOUR_LOOPS_OF(SHARED_##taps, SHARED_##taps##_LENGTH)
#define FOUR_LOOPS_OF(row, length)                                                                                    \
    LOOP_OUTER("%[n1]", length + 11) LOOP("%[n0]", length + 5) row ADD("t4", "%[w0]") ADD("t0", "%[x0]")              \
    ADD("t1", "%[x0]") ADD("t2", "%[x0]") ADD("t3", "%[x0]") LOOP_END(length + 5) ADD("t4", "%[w1]")                  \
    ADD("t0", "%[x1]") ADD("t1", "%[x1]") ADD("t2", "%[x1]") ADD("t3", "%[x1]") LOOP_OUTER_END(length + 11)
#define WHEN_TAPS(taps) ADDI("t5", -1) "bnez t5, 6f\n" FOUR_LOOPS(taps) "j 5f\n6: "
#if CONV_CHANNELS == 4 && CONV_TAPS == 2 /* channels share an operand's element; else outputs share a weight */
#define X_W 8
#define W_W TAP_1
#elif CONV_CHANNELS == 4
#define X_W 4
#define W_W TAP_1
#else
#define X_W TAP_1
#define W_W 4
#endif
/* Rows in line; t5 is first how many taps they have above one. */
#define LEAST_IN_LINE (CONV_CHANNELS == 4 && CONV_TAPS > 2 ? 3u : 2u)
#if CONV_TAPS == 0
#define FOUR_IN_LINE
#elif CONV_TAPS == 2
#define FOUR_IN_LINE "blez t5, 4f\n" FOUR_LOOPS(2) "j 5f\n"
#elif CONV_TAPS == 3
#define FOUR_IN_LINE ADDI("t5", -1) WHEN_TAPS(3)
#elif CONV_CHANNELS == 4
#define FOUR_IN_LINE ADDI("t5", -1) WHEN_TAPS(3) WHEN_TAPS(4) WHEN_TAPS(5)
#else
#define FOUR_IN_LINE WHEN_TAPS(2) WHEN_TAPS(3) WHEN_TAPS(4) WHEN_TAPS(5)
#endif
#if CONV_APART > 0
#define FOUR_BIAS                                                                                                     \
    "lw a1, 36(%[b])\n beqz a1, 9f\n lw t5, 56(%[b])\n" FLW("fa0", "a1", 0) ADD("a1", "t5") FLW("fa1", "a1", 0)       \
    ADD("a1", "t5") FLW("fa2", "a1", 0) ADD("a1", "t5") FLW("fa3", "a1", 0) ADD_FOUR_SUMS "9: "
#else
#define FOUR_BIAS
#endif
#define ADD_FOUR_SUMS FADD("%[s0]", "fa0") FADD("%[s1]", "fa1") FADD("%[s2]", "fa2") FADD("%[s3]", "fa3")
#define FOUR_RESULTS "lw a2, 16(%[b])\n lw a3, 20(%[b])\n lw a4, 24(%[b])\n lw a5, 28(%[b])\n"
#define FOUR_ROW(OP, r0, r1, r2, r3) OP(r0, "a2", 0) OP(r1, "a3", 0) OP(r2, "a4", 0) OP(r3, "a5", 0)
INLINE void four_sums(const nest_t *n, const block_t *b) {
    register const block_t *const at_b __asm__("s1") = b;
    uint32_t outer = n->count[2];
    float s[4];
    __asm__ volatile(
        WHEN_IT_GOES_ON("lw t0, 40(%[b])\n bnez t0, 3f\n") ROW_ZERO(s0, s1, s2, s3)
        WHEN_IT_GOES_ON(".subsection 1\n3: " FOUR_RESULTS FOUR_ROW(FLW, "%[s0]", "%[s1]", "%[s2]", "%[s3]")
                        "j 2f\n.previous\n")
        "2: lw t0, 0(%[b])\n lw t1, 4(%[b])\n lw t2, 8(%[b])\n lw t3, 12(%[b])\n lw t4, 32(%[b])\n"
        "addi t5, %[taps], -1\n beqz %[outer], 5f\n" FOUR_IN_LINE
        "4: " FOUR_LOOPS(1)
        ADDI("%[outer]", -1) ADD("t4", "%[w2]") ADD("t0", "%[x2]") ADD("t1", "%[x2]") ADD("t2", "%[x2]")
        ADD("t3", "%[x2]") "bnez %[outer], 4b\n"
        "5: " FOUR_RESULTS "lw a1, 44(%[b])\n bnez a1, 7f\n8: "
        ".subsection 1\n7: " FOUR_ROW(FLW, "fa0", "fa1", "fa2", "fa3") ADD_FOUR_SUMS "j 8b\n.previous\n" FOUR_BIAS
        FOUR_ROW(FSW, "%[s0]", "%[s1]", "%[s2]", "%[s3]")
        : [s0] "=&f"(s[0]), [s1] "=&f"(s[1]), [s2] "=&f"(s[2]), [s3] "=&f"(s[3]), [outer] "+&r"(outer)
        : [b] "r"(at_b), [n0] "r"(n->count[0]), [n1] "r"(n->count[1]), [x0] "r"(n->x[0]), [x1] "r"(n->x[1]),
          [x2] "r"(n->x[2]), [w0] "r"(n->w[0]), [w1] "r"(n->w[1]), [w2] "r"(n->w[2]), [taps] "r"(n->taps)
        : "t0", "t1", "t2", "t3", "t4", "t5", "a1", "a2", "a3", "a4", "a5", CLOBBERS);
}

/* One sum, of factors that begin where the first of four do. */
INLINE void one_sum(const nest_t *n, const block_t *b) {
    uint32_t outer = n->count[2];
    const float *x = b->x[0], *w = b->w;
    float *const y = b->y[0], s = CONV_GOES_ON && SELDOM(b->goes_on) ? *y : 0.0f;
    if (outer > 0) {
        __asm__ volatile(
            "4: " LOOP_OUTER("%[n1]", 8) LOOP("%[n0]", 5)
            FLW("fa0", "%[x]", 0) FLW("ft0", "%[w]", 0) ADD("%[x]", "%[x0]") ADD("%[w]", "%[w0]")
            FMA("%[s]", "fa0", "ft0") LOOP_END(5)
            ADD("%[x]", "%[x1]") ADD("%[w]", "%[w1]") LOOP_OUTER_END(8)
            ADDI("%[outer]", -1) ADD("%[x]", "%[x2]") ADD("%[w]", "%[w2]") "bnez %[outer], 4b\n"
            : [s] "+&f"(s), [x] "+&r"(x), [w] "+&r"(w), [outer] "+&r"(outer)
            : [n0] "r"(n->count[0]), [n1] "r"(n->count[1]), [x0] "r"(n->x[0]), [x1] "r"(n->x[1]), [x2] "r"(n->x[2]),
              [w0] "r"(n->w[0]), [w1] "r"(n->w[1]), [w2] "r"(n->w[2])
            : "fa0", "ft0", "memory");
    }
    if (SELDOM(b->adds)) s += *y;
    if (CONV_APART > 0 && b->bias) s += *b->bias;
    *y = s;
}

#endif
