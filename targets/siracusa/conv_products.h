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

/* The same where a gate lies like the result: what it does not let through is zero, by a mask of all bits. */
INLINE void put_gated(float c[4][4], const float *bias, const float *gate, float *y, uint32_t y_m) {
    UNROLL for (uint32_t m = 0; m < 4; m++, y += y_m, gate += y_m) {
        UNROLL for (uint32_t p = 0; p < 4; p++) {
            union {
                float value;
                uint32_t bits;
            } sum = {bias ? c[m][p] + bias[m] : c[m][p]};
            sum.bits &= 0u - (uint32_t)(gate[p] > 0.0f);
            y[p] = sum.value;
        }
    }
}

/* One tap: products of matrices over `count` channels from `from` on. Blocks of four channels by four neighbours in a
 * row; cores take turns along a row. Sums are `fresh`, else added to what waits; a block that is all of the sum
 * `goes_on` from there. The `usual` sum is one block in one tile. */
INLINE uint32_t products_of(const conv_t *v, const rectangle_t *r, uint32_t from, uint32_t count,
                            const uint32_t fresh, const uint32_t goes_on, const int usual, uint32_t turn) {
    const uint32_t each = v->m >> 2, channels = v->n * v->g * each, end = r->columns >> 2;
    const uint32_t cores = hal_core_count(), y_m = v->y_m, y_n = r->y_column, last = from + count == v->c;
    product_t product = {.a_m = 4 * v->w_m, .a_k = 4 * v->w_c, .b_k = 4 * v->x_c, .k = count};
    product.b_n = 4 * (uint32_t)r->x_column;
    for (uint32_t channel = 0; channel < channels; channel++) {
        const place_t to = place_of(v, r, each, 0, 4, channel);
        const float *x = to.x + from * v->x_c, *const bias = last ? to.b : 0;
        float *y = to.y;
        product.a = to.w + from * v->w_c;
        for (uint32_t row = r->rows; row > 0; row--, x += r->x_row, y += r->y_row) {
            for (; turn < end; turn += cores) {
                float sums[4][4], c[4][4], *at = y + 4 * turn * y_n;
                const float *before = 0;
                product.b = x + (int32_t)(4 * turn) * r->x_column;
                if (SELDOM(goes_on)) {
                    for (uint32_t m = 0; m < 4; m++) {
                        UNROLL for (uint32_t p = 0; p < 4; p++) sums[m][p] = at[m * y_m + p * y_n];
                    }
                    before = sums[0];
                }
                gemm_block(&product, before, sizeof(sums[0]), c);
                if (SELDOM(!fresh)) {
                    UNROLL for (uint32_t m = 0; m < 4; m++) {
                        UNROLL for (uint32_t p = 0; p < 4; p++) c[m][p] += at[m * y_m + p * y_n];
                    }
                }
                if (CONV_APART < 0 && usual && y_n == 1 && v->gate && v->gate_alike) {
                    put_gated(c, bias, v->gate + (at - v->y), at, y_m);
                    continue;
                }
                if (y_n == 1)
                    put(c, bias, at, y_m, 1);
                else
                    put(c, bias, at, y_m, y_n);
                if (finishes(v) && last)
                    for (uint32_t m = 0; m < 4; m++) finish_line(v, at + m * y_m, 4, y_n);
            }
            turn -= end;
        }
    }
    return turn;
}

/* The usual case by itself: what it does not need would fill the instruction cache. */
static __attribute__((noinline)) uint32_t one_block(const conv_t *v, const rectangle_t *r, uint32_t turn) {
    return products_of(v, r, 0, v->c, 1, 0, 1, turn);
}

static __attribute__((noinline)) uint32_t any_block(const conv_t *v, const rectangle_t *r, uint32_t from,
                                                    uint32_t count, uint32_t fresh, uint32_t turn) {
    return products_of(v, r, from, count, fresh, v->single && !v->first, 0, turn);
}

/* One block of channels after the other, each by the same cores. */
static uint32_t products(const conv_t *v, const rectangle_t *r, uint32_t turn) {
    if (v->first && v->c <= v->together) return one_block(v, r, turn);
    uint32_t from = 0, fresh = v->single || v->first;
    for (; v->c - from > v->together; from += v->together, fresh = 0)
        any_block(v, r, from, v->together, fresh, turn);
    return any_block(v, r, from, v->c - from, fresh, turn);
}

#endif
