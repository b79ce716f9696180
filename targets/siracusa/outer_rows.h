/* Rows of outer products with the cluster's hardware loops: each product is rounded by itself, from a zero, as a sum of one
 * product is. Steps are bytes. */
#ifndef OUTER_ROWS_H
#define OUTER_ROWS_H

#include "pulp.h"

#define PRODUCT(to, b) "fmadd.s " to ", ft1, " b ", ft0\n"

/* Rows of 8 outputs: Y[m, n..n+7] = A[m] B[n..n+7]. */
static inline void outer_8(const float *a, uint32_t a_m, const float *b, uint32_t b_n, float *y, uint32_t y_m,
                           uint32_t rows) {
    __asm__ volatile(
        "fmv.w.x ft0, zero\n"
        FLW("fa0", "%[b]", 0) ADD("%[b]", "%[b_n]") FLW("fa1", "%[b]", 0) ADD("%[b]", "%[b_n]")
        FLW("fa2", "%[b]", 0) ADD("%[b]", "%[b_n]") FLW("fa3", "%[b]", 0) ADD("%[b]", "%[b_n]")
        FLW("fa4", "%[b]", 0) ADD("%[b]", "%[b_n]") FLW("fa5", "%[b]", 0) ADD("%[b]", "%[b_n]")
        FLW("fa6", "%[b]", 0) ADD("%[b]", "%[b_n]") FLW("fa7", "%[b]", 0)
        LOOP("%[rows]", 19)
        FLW("ft1", "%[a]", 0) ADD("%[a]", "%[a_m]") PRODUCT("ft2", "fa0")
        PRODUCT("ft3", "fa1") FSW("ft2", "%[y]", 0) PRODUCT("ft2", "fa2") FSW("ft3", "%[y]", 4)
        PRODUCT("ft3", "fa3") FSW("ft2", "%[y]", 8) PRODUCT("ft2", "fa4") FSW("ft3", "%[y]", 12)
        PRODUCT("ft3", "fa5") FSW("ft2", "%[y]", 16) PRODUCT("ft2", "fa6") FSW("ft3", "%[y]", 20)
        PRODUCT("ft3", "fa7") FSW("ft2", "%[y]", 24) FSW("ft3", "%[y]", 28) ADD("%[y]", "%[y_m]")
        LOOP_END(19)
        : [a] "+&r"(a), [b] "+&r"(b), [y] "+&r"(y)
        : [a_m] "r"(a_m), [b_n] "r"(b_n), [y_m] "r"(y_m), [rows] "r"(rows)
        : "ft0", "ft1", "ft2", "ft3", "fa0", "fa1", "fa2", "fa3", "fa4", "fa5", "fa6", "fa7", "memory");
}

static inline void outer_1(const float *a, uint32_t a_m, const float *b, float *y, uint32_t y_m, uint32_t rows) {
    __asm__ volatile("fmv.w.x ft0, zero\n" FLW("fa0", "%[b]", 0)
                     LOOP("%[rows]", 5)
                     FLW("ft1", "%[a]", 0) ADD("%[a]", "%[a_m]") PRODUCT("ft2", "fa0") FSW("ft2", "%[y]", 0)
                     ADD("%[y]", "%[y_m]")
                     LOOP_END(5)
                     : [a] "+&r"(a), [y] "+&r"(y)
                     : [b] "r"(b), [a_m] "r"(a_m), [y_m] "r"(y_m), [rows] "r"(rows)
                     : "ft0", "ft1", "ft2", "fa0", "memory");
}

/* The same with C: Y[m, n..n+3] = A[m] B[n..n+3] + beta C[m, n..n+3], where the product is rounded by itself. */
static inline void added_4(const float *a, uint32_t a_m, const float *b, uint32_t b_n, const float *c, uint32_t c_m,
                           float *y, uint32_t y_m, uint32_t rows, float beta) {
    __asm__ volatile(
        "fmv.w.x ft0, zero\n"
        FLW("fa0", "%[b]", 0) ADD("%[b]", "%[b_n]") FLW("fa1", "%[b]", 0) ADD("%[b]", "%[b_n]")
        FLW("fa2", "%[b]", 0) ADD("%[b]", "%[b_n]") FLW("fa3", "%[b]", 0)
        LOOP("%[rows]", 20)
        FLW("ft1", "%[a]", 0) FLW("ft6", "%[c]", 0) PRODUCT("ft2", "fa0") FLW("ft7", "%[c]", 4) PRODUCT("ft3", "fa1")
        FLW("fa6", "%[c]", 8) PRODUCT("ft4", "fa2") FLW("fa7", "%[c]", 12) PRODUCT("ft5", "fa3")
        FMA("ft2", "%[beta]", "ft6") FMA("ft3", "%[beta]", "ft7") FMA("ft4", "%[beta]", "fa6")
        FMA("ft5", "%[beta]", "fa7") FSW("ft2", "%[y]", 0) FSW("ft3", "%[y]", 4) FSW("ft4", "%[y]", 8)
        FSW("ft5", "%[y]", 12) ADD("%[a]", "%[a_m]") ADD("%[c]", "%[c_m]") ADD("%[y]", "%[y_m]")
        LOOP_END(20)
        : [a] "+&r"(a), [b] "+&r"(b), [c] "+&r"(c), [y] "+&r"(y)
        : [a_m] "r"(a_m), [b_n] "r"(b_n), [c_m] "r"(c_m), [y_m] "r"(y_m), [rows] "r"(rows), [beta] "f"(beta)
        : "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fa0", "fa1", "fa2", "fa3", "fa6", "fa7", "memory");
}

static inline void added_1(const float *a, uint32_t a_m, const float *b, const float *c, uint32_t c_m, float *y,
                           uint32_t y_m, uint32_t rows, float beta) {
    __asm__ volatile("fmv.w.x ft0, zero\n" FLW("fa0", "%[b]", 0)
                     LOOP("%[rows]", 8)
                     FLW("ft1", "%[a]", 0) FLW("ft3", "%[c]", 0) PRODUCT("ft2", "fa0") ADD("%[a]", "%[a_m]")
                     FMA("ft2", "%[beta]", "ft3") ADD("%[c]", "%[c_m]") FSW("ft2", "%[y]", 0) ADD("%[y]", "%[y_m]")
                     LOOP_END(8)
                     : [a] "+&r"(a), [c] "+&r"(c), [y] "+&r"(y)
                     : [b] "r"(b), [a_m] "r"(a_m), [c_m] "r"(c_m), [y_m] "r"(y_m), [rows] "r"(rows), [beta] "f"(beta)
                     : "ft0", "ft1", "ft2", "ft3", "fa0", "memory");
}

#endif
