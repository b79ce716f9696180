/* Blocks of 4 x 4 sums of products, whose sums stay in registers; k ascending by fmaf, from zero or from sums that a
 * caller has.
 *
 * Two cores share an FPU: their loops have a multiply-add in every second place, and so settle half a step apart. No
 * loaded value is used by the very next instruction. Code beyond a core's 512 bytes of cache takes several times as long,
 * so this is short, and what is seldom needed lies elsewhere. */
#ifndef GEMM_BLOCK_H
#define GEMM_BLOCK_H

#include "pulp.h"

/* What the loops hold of A and B. */
#define CLOBBERS "ft0", "ft1", "ft2", "ft3", "fa0", "fa1", "fa2", "fa3", "memory"

#define ROW_IN(c0, c1, c2, c3)                                                                                        \
    FLW("%[" #c0 "]", "t0", 0) FLW("%[" #c1 "]", "t0", 4) FLW("%[" #c2 "]", "t0", 8) FLW("%[" #c3 "]", "t0", 12)
#define ZERO(c) "fmv.w.x %[" #c "], zero\n"
#define ROW_ZERO(c0, c1, c2, c3) ZERO(c0) ZERO(c1) ZERO(c2) ZERO(c3)
#define MAC(c, a, b) FMA("%[c" #c "]", "ft" #a, "fa" #b) /* A in ft0..3, B in fa0..3 */
#define COLUMN(n) MAC(0##n, 0, n) MAC(1##n, 1, n) MAC(2##n, 2, n) MAC(3##n, 3, n)

/* Rows of A in t0..t3, columns of B in t4..t6 and a7; and what the first turn adds, -0 * 0. */
#define BEGIN_TURNS                                                                                                    \
    "lui t0, 0x80000\n fmv.w.x ft2, t0\n fmv.w.x ft3, t0\n fmv.w.x fa3, zero\n"                                        \
    "mv t0, %[a]\n add t1, t0, %[a_m]\n add t2, t1, %[a_m]\n add t3, t2, %[a_m]\n"                                     \
    "mv t4, %[b]\n add t5, t4, %[b_n]\n add t6, t5, %[b_n]\n add a7, t6, %[b_n]\n"
/* The products of an element of each row and column; STEP goes to the next element of a row. */
#define TURN(STEP)                                                                                                     \
    FLW("ft0", "t0", 0) MAC(23, 2, 3) FLW("fa0", "t4", 0) MAC(33, 3, 3) FLW("ft1", "t1", 0) MAC(00, 0, 0)              \
    FLW("ft2", "t2", 0) MAC(10, 1, 0) FLW("ft3", "t3", 0) MAC(20, 2, 0) FLW("fa1", "t5", 0) MAC(30, 3, 0)              \
    STEP("t0") MAC(01, 0, 1) STEP("t1") MAC(11, 1, 1) FLW("fa2", "t6", 0) MAC(21, 2, 1) STEP("t2") MAC(31, 3, 1)       \
    STEP("t3") MAC(02, 0, 2) FLW("fa3", "a7", 0) MAC(12, 1, 2) ADD("t4", "%[b_k]") MAC(22, 2, 2)                       \
    ADD("t5", "%[b_k]") MAC(32, 3, 2) ADD("t6", "%[b_k]") MAC(03, 0, 3) ADD("a7", "%[b_k]") MAC(13, 1, 3)
#define ADD_A_K(row) ADD(row, "%[a_k]")
#define ADD_FOUR(row) ADDI(row, 4)
/* The sums as operands of an asm statement, [c00] to [c33]. */
#define SUMS_OUT(c)                                                                                                    \
    [c00] "=&f"(c[0][0]), [c01] "=&f"(c[0][1]), [c02] "=&f"(c[0][2]), [c03] "=&f"(c[0][3]),                            \
    [c10] "=&f"(c[1][0]), [c11] "=&f"(c[1][1]), [c12] "=&f"(c[1][2]), [c13] "=&f"(c[1][3]),                            \
    [c20] "=&f"(c[2][0]), [c21] "=&f"(c[2][1]), [c22] "=&f"(c[2][2]), [c23] "=&f"(c[2][3]),                            \
    [c30] "=&f"(c[3][0]), [c31] "=&f"(c[3][1]), [c32] "=&f"(c[3][2]), [c33] "=&f"(c[3][3])

/* Rows a, a + a_m, .. of A and columns b, b + b_n, .. of B, each of k elements a_k and b_k apart. */
typedef struct {
    const float *a, *b;
    uint32_t a_m, a_k, b_k, b_n, k; /* steps in bytes */
} product_t;

/* c = zeros, or the sums that rows of four, sums_m bytes apart, hold; + A B.
 *
 * The last two products of a turn are added in the next one, where they fill the places before its first. The first
 * turn adds -0 * 0 there, which changes no sum. */
static inline __attribute__((always_inline)) void gemm_block(const product_t *p, const float *sums, uint32_t sums_m,
                                                             float c[4][4]) {
    __asm__ volatile(
        "bnez %[sums], 3f\n"
        ROW_ZERO(c00, c01, c02, c03) ROW_ZERO(c10, c11, c12, c13)
        ROW_ZERO(c20, c21, c22, c23) ROW_ZERO(c30, c31, c32, c33)
        "2: " BEGIN_TURNS
        LOOP("%[k]", 32) TURN(ADD_A_K) LOOP_END(32)
        MAC(23, 2, 3) MAC(33, 3, 3)
        ".subsection 1\n"
        "3: mv t0, %[sums]\n"
        ROW_IN(c00, c01, c02, c03) ADD("t0", "%[sums_m]") ROW_IN(c10, c11, c12, c13) ADD("t0", "%[sums_m]")
        ROW_IN(c20, c21, c22, c23) ADD("t0", "%[sums_m]") ROW_IN(c30, c31, c32, c33)
        "j 2b\n.previous\n"
        : SUMS_OUT(c)
        : [sums] "r"(sums), [sums_m] "r"(sums_m), [a] "r"(p->a), [a_m] "r"(p->a_m), [a_k] "r"(p->a_k), [b] "r"(p->b),
          [b_n] "r"(p->b_n), [b_k] "r"(p->b_k), [k] "r"(p->k)
        : "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a7", CLOBBERS);
}

#endif
