/* A single tap without padding as a product of matrices in blocks of 4 x 4 weights, whose sums may be several blocks or go on
 * from what waits. */
#ifndef CONV_GRAD_W_PRODUCTS_H
#define CONV_GRAD_W_PRODUCTS_H

#define TAPS 1
#define WHOLE 1
#define BY_PAIRS 0
#define ALONE 1
#include "conv_grad_w.h"

/* One tap: dW = dY X^T in blocks of 4 x 4, whose sums wait between rows on the stack. */
INLINE void products_of(const args_t *p, const view_t *v, product_t *product, uint32_t rows, const uint32_t goes_on,
                        const uint32_t adds, float *dw) {
    const uint32_t dw_m = STEPS ? v->dw_m : p->dw_m, dw_c = STEPS ? v->dw_c : p->dw_c, dy_h = p->dy_h, x_h = p->sh * p->x_h;
    float sums[4][4], s[4][4];
    const float *before = 0;
    if (__builtin_expect(goes_on, 0)) {
        for (uint32_t m = 0; m < 4; m++) {
            UNROLL for (uint32_t c = 0; c < 4; c++) sums[m][c] = dw[m * dw_m + c * dw_c];
        }
        before = sums[0];
    }
    for (;; product->a += dy_h, product->b += x_h) {
        gemm_block(product, before, sizeof(sums[0]), s);
        if (--rows == 0) break;
        UNROLL for (uint32_t m = 0; m < 4; m++) {
            UNROLL for (uint32_t c = 0; c < 4; c++) sums[m][c] = s[m][c];
        }
        before = sums[0];
    }
    UNROLL for (uint32_t m = 0; m < 4; m++, dw += dw_m) {
        UNROLL for (uint32_t c = 0; c < 4; c++) s[m][c] = adds ? s[m][c] + dw[c * dw_c] : s[m][c];
        if (STEPS && !v->several) {
            UNROLL for (uint32_t c = 0; c < 4; c++) s[m][c] = __builtin_fmaf(-v->rate, s[m][c], dw[c * dw_c]);
        }
        UNROLL for (uint32_t c = 0; c < 4; c++) dw[c * dw_c] = s[m][c];
    }
}

static __attribute__((noinline)) void add_products(const args_t *p, const view_t *v, product_t *product, uint32_t rows,
                                                   float *dw) {
    products_of(p, v, product, rows, 0, 1, dw);
}

static __attribute__((noinline)) void put_products(const args_t *p, const view_t *v, product_t *product, uint32_t rows,
                                                   uint32_t goes_on, float *dw) {
    products_of(p, v, product, rows, goes_on, 0, dw);
}

/* Several blocks of rows, or of parts of rows; or a block to what waits. */
static __attribute__((noinline)) void long_products(const args_t *p, const view_t *v, product_t *product, uint32_t rows,
                                                    float *dw) {
    const uint32_t x_h = p->sh * p->x_h;
    const float *a = product->a, *b = product->b;
    uint32_t fresh = v->fresh;
    for (uint32_t n = 0; n < p->n; n++, a += p->dy_n, b += p->x_n)
        for (uint32_t row = 0; row < rows; row += v->together) {
            const uint32_t some = hal_min(v->together, rows - row);
            const float *row_a = a + row * p->dy_h, *row_b = b + row * x_h;
            for (uint32_t left = v->columns; left > 0; left -= product->k, fresh = 0) {
                product->k = hal_min(left, v->together_columns);
                product->a = row_a, product->b = row_b;
                if (fresh)
                    put_products(p, v, product, some, 0, dw);
                else
                    add_products(p, v, product, some, dw);
                row_a += product->k, row_b += product->k * p->sw;
            }
        }
}

static inline void products(const args_t *p, const view_t *v, uint32_t rows, uint32_t turn) {
    const uint32_t cores = hal_core_count(), channels = p->c >> 2, outputs = p->m >> 2;
    const uint32_t count = p->g * outputs * channels;
    product_t product = {.a_m = 4 * p->dy_m, .a_k = 4, .b_k = 4 * p->sw, .b_n = 4 * p->x_c, .k = v->columns};
    for (; turn < count; turn += cores) {
        const place_t to = place_of(p, turn, 0, 4, outputs, channels, 4);
        product.a = to.dy, product.b = to.x;
        float sums[16], *at = STEPS && v->several ? sums : to.dw;
        if (v->several || !v->fresh)
            long_products(p, v, &product, rows, at);
        else
            put_products(p, v, &product, rows, v->goes_on, at);
        if (STEPS && v->several) step_rows(p, sums, to.dw, p->dw_m, 4, 4); /* channels are neighbours where there is one tap */
    }
}

static inline void squares(const args_t *p) {
    const int merges = p->sh * p->sw == 1 && p->dy_h == p->ow && p->x_h == p->ow && p->ow <= PRODUCTS_BLOCK;
    const view_t v = view_of(p, merges);
    products(p, &v, merges ? 1 : p->oh, hal_core_id());
}

#endif
