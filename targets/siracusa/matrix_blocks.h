/* Y = alpha * A B + beta * C by blocks of 4 x 4 outputs, where rows and columns are multiples of four; then Relu or a
 * gate. Each output sums k in blocks, as products_f32.h says, and adds them to what waits in Y.
 *
 * Before it is included, MATRICES names a structure with the members of a Gemm's arguments: pointers a, b, c, gate (null
 * where there is none) and y; batch, m, n, k; strides a_b, a_m, a_k, b_b, b_k, b_n, c_b, c_m, c_n, y_b, y_m, gate_b and
 * gate_m; relu, first, last, single, alpha and beta. SEVERAL_BLOCKS says whether sums may have several blocks of products. Where
 * OVERLAPPING is defined, rows and columns are four at least, and the last blocks overlap those before: two cores may write the
 * same outputs to the same place, so no sums may wait there. */
#ifndef MATRIX_BLOCKS_H
#define MATRIX_BLOCKS_H

#ifndef WAITS_ASIDE /* whether a block waits for the next ones of its sums beside Y, where C may lie */
#define WAITS_ASIDE 0
#endif

#include "gemm_block.h"
#include "hal.h"
#include "hints.h"
#include "matrix_epilogue.h"
#include "products_f32.h"
#include "pulp.h"

static inline __attribute__((always_inline)) void add_rows(float c[4][4], const float *y, uint32_t y_m) {
    UNROLL for (uint32_t m = 0; m < 4; m++, y += y_m) {
        UNROLL for (uint32_t n = 0; n < 4; n++) c[m][n] += y[n];
    }
}

/* alpha times complete sums, and beta times C to them, in the registers that hold them. */
#define TIMES(s) "fmul.s %[" #s "], %[" #s "], %[alpha]\n"
#define ROW_OF(s, m) [s0] "+f"(s[m][0]), [s1] "+f"(s[m][1]), [s2] "+f"(s[m][2]), [s3] "+f"(s[m][3])
static inline __attribute__((always_inline)) void scale_rows(const MATRICES *p, float s[4][4], const float *c) {
    if (scales(p->alpha)) {
        const float alpha = p->alpha;
        UNROLL for (uint32_t m = 0; m < 4; m++)
            __asm__(TIMES(s0) TIMES(s1) TIMES(s2) TIMES(s3) : ROW_OF(s, m) : [alpha] "f"(alpha));
    }
    if (p->c) {
        const float beta = p->beta;
        const uint32_t c_n = 4 * p->c_n, c_m = 4 * p->c_m - 3 * c_n;
        UNROLL for (uint32_t m = 0; m < 4; m++)
            __asm__ volatile(FLW("ft0", "%[c]", 0) ADD("%[c]", "%[c_n]") FLW("ft1", "%[c]", 0) ADD("%[c]", "%[c_n]")
                             FLW("ft2", "%[c]", 0) ADD("%[c]", "%[c_n]") FLW("ft3", "%[c]", 0) FMA("%[s0]", "%[beta]", "ft0")
                             FMA("%[s1]", "%[beta]", "ft1") ADD("%[c]", "%[c_m]") FMA("%[s2]", "%[beta]", "ft2")
                             FMA("%[s3]", "%[beta]", "ft3")
                             : ROW_OF(s, m), [c] "+&r"(c) : [beta] "f"(beta), [c_n] "r"(c_n), [c_m] "r"(c_m)
                             : "ft0", "ft1", "ft2", "ft3", "memory");
    }
}

static __attribute__((noinline)) void activate_rows(const MATRICES *p, float *y, const float *gate) {
    float *rectified = y;
    const float *sums = y;
    if (p->relu) ACTIVATE(MASK_POSITIVE, sums, p->y_m, rectified, p->y_m);
    if (p->gate) ACTIVATE(MASK_OPEN, gate, p->gate_m, y, p->y_m);
}

#ifdef OVERLAPPING
#define MORE 3
#define PLACE(i, size) hal_min(4 * (i), (size) - 4)
#else
#define MORE 0
#define PLACE(i, size) (4 * (i))
#endif

/* Every core has as many blocks one after the other as any: along a row of blocks, then along the next one, of the next
 * batch at last. */
static __attribute__((noinline)) void matrix_blocks(const MATRICES *p) {
    const uint32_t rows = (p->m + MORE) >> 2, columns = (p->n + MORE) >> 2, all = p->batch * rows * columns;
    const uint32_t each = rounds_of(all, hal_core_count());
    uint32_t n = hal_core_id() * each, m = 0, batch = 0;
    if (n >= all) return;
    uint32_t count = hal_min(each, all - n);
    if (n >= columns) m = n / columns, n -= m * columns;
    if (m >= rows) batch = m / rows, m -= batch * rows;
    product_t product = {.a_m = 4 * p->a_m, .a_k = 4 * p->a_k, .b_k = 4 * p->b_k, .b_n = 4 * p->b_n, .k = p->k};
    const uint32_t y_m = p->y_m, goes_on = p->single && !p->first, continues = !p->single && !p->first;
    for (;;) {
        const uint32_t row = PLACE(m, p->m);
        uint32_t column = PLACE(n, p->n);
        const float *c = p->c + batch * p->c_b + row * p->c_m + column * p->c_n;
        float *y = p->y + batch * p->y_b + row * p->y_m + column;
        product.a = p->a + batch * p->a_b + row * p->a_m;
        product.b = at(p->b + batch * p->b_b, column * product.b_n);
        for (;;) {
            float s[4][4];
            float aside[4 * 4], *waiting = y;
            uint32_t adds = continues, waiting_m = y_m;
            if (SEVERAL_BLOCKS) {
                const float *a = product.a, *b = product.b;
                for (uint32_t left = p->k;;) {
                    product.k = hal_min(left, PRODUCTS_BLOCK);
                    gemm_block(&product, SELDOM(goes_on) ? y : 0, 4 * y_m, s);
                    left -= product.k;
                    if (left == 0) break;
                    if (adds) add_rows(s, waiting, waiting_m);
                    if (WAITS_ASIDE) waiting = aside, waiting_m = 4;
                    put_rows(s, waiting, waiting_m);
                    product.a = at(product.a, PRODUCTS_BLOCK * product.a_k);
                    product.b = at(product.b, PRODUCTS_BLOCK * product.b_k);
                    adds = 1;
                }
                product.a = a, product.b = b;
            } else {
                gemm_block(&product, SELDOM(goes_on) ? y : 0, 4 * y_m, s);
            }
            if (SELDOM(adds)) add_rows(s, waiting, waiting_m);
            if (p->last) scale_rows(p, s, c);
            put_rows(s, y, y_m);
            if (SELDOM(p->relu || p->gate) && p->last)
                activate_rows(p, y, p->gate + batch * p->gate_b + row * p->gate_m + column);
            if (--count == 0) return;
            if (++n == columns) break;
            if (MORE && SELDOM(column + 8 > p->n)) {
                const uint32_t back = column + 8 - p->n;
                product.b -= back * p->b_n, c -= back * p->c_n, y -= back, column -= back;
            }
            product.b = at(product.b, 4 * product.b_n), c += 4 * p->c_n, y += 4, column += 4;
        }
        n = 0;
        if (++m == rows) m = 0, batch++;
    }
}

#endif
