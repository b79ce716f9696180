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
        BEGIN_TURNS
        LOOP_OUTER("%[rows]", 41)
        LOOP("%[k]", 32) TURN(ADD_FOUR) LOOP_END(32)
        ADD("t0", "%[a_row]") ADD("t1", "%[a_row]") ADD("t2", "%[a_row]") ADD("t3", "%[a_row]")
        ADD("t4", "%[b_row]") ADD("t5", "%[b_row]") ADD("t6", "%[b_row]") ADD("a7", "%[b_row]")
        LOOP_OUTER_END(41)
        MAC(23, 2, 3) MAC(33, 3, 3)
        : SUMS_OUT(c)
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
