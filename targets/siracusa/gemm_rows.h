/* Blocks of 4 x 4 sums whose products lie in rows, as the taps of a window or the outputs of a plane do. */
#ifndef GEMM_ROWS_H
#define GEMM_ROWS_H

#include "gemm_block.h"

/* Rows a, a + a_m, .. of A and columns b, b + b_n, .. of B. Each has `rows` rows of k elements, 4 and b_k apart, and from the
 * end of one row to the next it is a_row and b_row; all in bytes. */
typedef struct {
    const float *a, *b;
    uint32_t a_m, a_row, b_n, b_k, b_row, k, rows;
} rows_product_t;

/* c = A B, row by row from zero; in the order, and with the delay, of gemm_block. */
static inline __attribute__((always_inline)) void gemm_rows(const rows_product_t *p, float c[4][4]) {
    __asm__ volatile(
        ROW_ZERO(c00, c01, c02, c03) ROW_ZERO(c10, c11, c12, c13)
        ROW_ZERO(c20, c21, c22, c23) ROW_ZERO(c30, c31, c32, c33)
        "lui t0, 0x80000\n fmv.w.x ft2, t0\n fmv.w.x ft3, t0\n fmv.w.x fa3, zero\n"
        "mv t0, %[a]\n add t1, t0, %[a_m]\n add t2, t1, %[a_m]\n add t3, t2, %[a_m]\n"
        "mv t4, %[b]\n add t5, t4, %[b_n]\n add t6, t5, %[b_n]\n add a7, t6, %[b_n]\n"
        LOOP_OUTER("%[rows]", 41)
        LOOP("%[k]", 32)
        FLW("ft0", "t0", 0) MAC(23, 2, 3)
        FLW("fa0", "t4", 0) MAC(33, 3, 3)
        FLW("ft1", "t1", 0) MAC(00, 0, 0)
        FLW("ft2", "t2", 0) MAC(10, 1, 0)
        FLW("ft3", "t3", 0) MAC(20, 2, 0)
        FLW("fa1", "t5", 0) MAC(30, 3, 0)
        ADDI("t0", 4) MAC(01, 0, 1)
        ADDI("t1", 4) MAC(11, 1, 1)
        FLW("fa2", "t6", 0) MAC(21, 2, 1)
        ADDI("t2", 4) MAC(31, 3, 1)
        ADDI("t3", 4) MAC(02, 0, 2)
        FLW("fa3", "a7", 0) MAC(12, 1, 2)
        ADD("t4", "%[b_k]") MAC(22, 2, 2)
        ADD("t5", "%[b_k]") MAC(32, 3, 2)
        ADD("t6", "%[b_k]") MAC(03, 0, 3)
        ADD("a7", "%[b_k]") MAC(13, 1, 3)
        LOOP_END(32)
        ADD("t0", "%[a_row]") ADD("t1", "%[a_row]") ADD("t2", "%[a_row]") ADD("t3", "%[a_row]")
        ADD("t4", "%[b_row]") ADD("t5", "%[b_row]") ADD("t6", "%[b_row]") ADD("a7", "%[b_row]")
        LOOP_OUTER_END(41)
        MAC(23, 2, 3) MAC(33, 3, 3)
        : [c00] "=&f"(c[0][0]), [c01] "=&f"(c[0][1]), [c02] "=&f"(c[0][2]), [c03] "=&f"(c[0][3]),
          [c10] "=&f"(c[1][0]), [c11] "=&f"(c[1][1]), [c12] "=&f"(c[1][2]), [c13] "=&f"(c[1][3]),
          [c20] "=&f"(c[2][0]), [c21] "=&f"(c[2][1]), [c22] "=&f"(c[2][2]), [c23] "=&f"(c[2][3]),
          [c30] "=&f"(c[3][0]), [c31] "=&f"(c[3][1]), [c32] "=&f"(c[3][2]), [c33] "=&f"(c[3][3])
        : [a] "r"(p->a), [a_m] "r"(p->a_m), [a_row] "r"(p->a_row), [b] "r"(p->b), [b_n] "r"(p->b_n), [b_k] "r"(p->b_k),
          [b_row] "r"(p->b_row), [k] "r"(p->k), [rows] "r"(p->rows)
        : "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a7", CLOBBERS);
}

/* Four rows of four, `n` apart. */
static inline __attribute__((always_inline)) void put_block(float c[4][4], float *y, uint32_t n) {
    _Pragma("GCC unroll 4") for (uint32_t m = 0; m < 4; m++, y += n) {
        _Pragma("GCC unroll 4") for (uint32_t i = 0; i < 4; i++) y[i] = c[m][i];
    }
}

#endif
