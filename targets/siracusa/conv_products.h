/* Part of conv.h: a single tap. */
#ifndef CONV_PRODUCTS_H
#define CONV_PRODUCTS_H

/* Four by four results, `n` apart in a row. */
INLINE void put(float c[4][4], const float *bias, float *y, uint32_t y_m, uint32_t n) {
    UNROLL for (uint32_t m = 0; m < 4; m++, y += y_m) {
        if (bias) {
            UNROLL for (uint32_t p = 0; p < 4; p++) c[m][p] += bias[m];
        }
        UNROLL for (uint32_t p = 0; p < 4; p++) y[p * n] = c[m][p];
    }
}

/* The products of four by four results, to what waits there unless they are the `first`; a block may go on. */
INLINE void put_products(const product_t *product, uint32_t goes_on, uint32_t first, const float *bias, float *y,
                         uint32_t y_m, uint32_t y_n) {
    float sums[4][4], c[4][4];
    if (goes_on) {
        UNROLL for (uint32_t m = 0; m < 4; m++) {
            UNROLL for (uint32_t p = 0; p < 4; p++) sums[m][p] = y[m * y_m + p * y_n];
        }
    } else {
        UNROLL for (uint32_t p = 0; p < 4; p++) sums[0][p] = 0.0f;
    }
    gemm_block(product, sums[0], goes_on ? 16 : 0, c);
    if (!first) {
        UNROLL for (uint32_t m = 0; m < 4; m++) {
            UNROLL for (uint32_t p = 0; p < 4; p++) c[m][p] += y[m * y_m + p * y_n];
        }
    }
    if (y_n == 1)
        put(c, bias, y, y_m, 1);
    else
        put(c, bias, y, y_m, y_n);
}

/* The blocks of channels behind the first. */
static __attribute__((noinline)) void more_products(const conv_t *v, product_t product, const float *bias, float *y,
                                                    uint32_t y_n) {
    for (uint32_t left = v->c - v->together; left > 0; left -= product.k) {
        product.a += v->together * v->w_c, product.b += v->together * v->x_c;
        product.k = hal_min(left, v->together);
        put_products(&product, 0, 0, left == product.k ? bias : 0, y, v->y_m, y_n);
    }
}

/* One tap: products of matrices. Blocks of four channels by four neighbours in a row; cores take turns along a row. The
 * sums are `plain` where each is one block that begins here. */
INLINE uint32_t products_of(const conv_t *v, const rectangle_t *r, const int plain, uint32_t turn) {
    const uint32_t each = v->m >> 2, channels = v->n * v->g * each, end = r->columns >> 2;
    const uint32_t cores = hal_core_count(), y_m = v->y_m, y_n = r->y_column, more = !plain && v->c > v->together;
    const uint32_t goes_on = v->single && !v->first;
    product_t product = {.a_m = 4 * v->w_m, .a_k = 4 * v->w_c, .b_k = 4 * v->x_c, .k = more ? v->together : v->c};
    product.b_n = 4 * (uint32_t)r->x_column;
    for (uint32_t channel = 0; channel < channels; channel++) {
        const place_t to = place_of(v, r, each, 0, 4, channel);
        const float *x = to.x;
        float *y = to.y;
        product.a = to.w;
        for (uint32_t row = r->rows; row > 0; row--, x += r->x_row, y += r->y_row) {
            for (; turn < end; turn += cores) {
                float *at = y + 4 * turn * y_n;
                product.b = x + (int32_t)(4 * turn) * r->x_column;
                if (plain) {
                    put_products(&product, 0, 1, to.b, at, y_m, y_n);
                } else {
                    put_products(&product, goes_on, v->single || v->first, more ? 0 : to.b, at, y_m, y_n);
                    if (more) more_products(v, product, to.b, at, y_n);
                }
                if (finishes(v))
                    for (uint32_t m = 0; m < 4; m++) finish_line(v, at + m * y_m, 4, y_n);
            }
            turn -= end;
        }
    }
    return turn;
}

static __attribute__((noinline)) uint32_t plain_products(const conv_t *v, const rectangle_t *r, uint32_t turn) {
    return products_of(v, r, 1, turn);
}

static __attribute__((noinline)) uint32_t products(const conv_t *v, const rectangle_t *r, uint32_t turn) {
    return products_of(v, r, 0, turn);
}

#endif
