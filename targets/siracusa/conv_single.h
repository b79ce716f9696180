/* A convolution of one tap, with strides or without, or its dX, whose windows all lie inside: products of matrices over the
 * channels, in blocks of four channels by four neighbours in a row, or by one where a row has no four more. */
#ifndef CONV_SINGLE_H
#define CONV_SINGLE_H

#include "conv_sums.h"
#include "matrix_epilogue.h"

/* Where a block of four channels begins: operand, weights, bias and results. */
typedef struct {
    const float *x, *w, *b;
    float *y;
} place_t;

/* Blocks of channels that all images and groups have. */
INLINE uint32_t channels_of(const conv_t *v) {
    return v->n * v->g * (v->m >> 2);
}

INLINE place_t place_of(const conv_t *v, const rectangle_t *r, uint32_t m) {
    const uint32_t each = v->m >> 2;
    uint32_t g = 0, n = 0;
    if (v->n * v->g > 1) {
        g = each > 1 ? m / each : m, m -= g * each;
        while (g >= v->g) g -= v->g, n++;
    }
    m *= 4;
    return (place_t){r->x + n * v->x_n + g * v->x_g, r->weights + g * v->w_g + m * v->w_m, bias_of(v, g, m),
                     r->y + n * v->y_n + g * v->y_g + m * v->y_m};
}

/* Four by four results, whose columns begin at y and lie y_n apart. */
INLINE void put(float c[4][4], const float *bias, float *y, uint32_t y_m, uint32_t y_n) {
    UNROLL for (uint32_t m = 0; m < 4; m++, y += y_m) {
        if (CONV_APART > 0 && bias) {
            UNROLL for (uint32_t p = 0; p < 4; p++) c[m][p] += bias[m];
        }
        UNROLL for (uint32_t p = 0; p < 4; p++) y[p * y_n] = c[m][p];
    }
}

/* Fours of a row are dealt out, of one block of channels after the other. */
static __attribute__((noinline)) uint32_t fours(const conv_t *v, const rectangle_t *r, uint32_t turn) {
    const uint32_t channels = channels_of(v), end = r->columns >> 2, cores = hal_core_count(), y_m = v->y_m;
    const uint32_t goes_on = sums_go_on(v), y_n = r->y_column;
    product_t product = {.a_m = 4 * v->w_m, .a_k = 4 * v->w_c, .b_k = 4 * v->x_c};
    product.b_n = 4 * (uint32_t)r->x_column;
    for (uint32_t channel = 0; channel < channels; channel++) {
        const place_t to = place_of(v, r, channel);
        const float *x = to.x;
        float *y = to.y;
        for (uint32_t row = r->rows; row > 0; row--, x += r->x_row, y += r->y_row) {
            for (; turn < end; turn += cores) {
                uint32_t adds = sums_add(v), left = v->c;
                float *const at = y + 4 * turn * y_n;
                product.a = to.w, product.b = x + (int32_t)(4 * turn) * r->x_column;
                for (;;) {
                    float c[4][4], sums[4][4];
                    product.k = hal_min(left, v->together), left -= product.k;
                    if (SELDOM(goes_on)) {
                        for (uint32_t m = 0; m < 4; m++) {
                            UNROLL for (uint32_t p = 0; p < 4; p++) sums[m][p] = at[m * y_m + p * y_n];
                        }
                    }
                    gemm_block(&product, goes_on ? sums[0] : 0, sizeof(sums[0]), c);
                    if (SELDOM(adds)) {
                        float *before = at;
                        UNROLL for (uint32_t m = 0; m < 4; m++, before += y_m) {
                            UNROLL for (uint32_t p = 0; p < 4; p++) c[m][p] += before[p * y_n];
                        }
                    }
                    if (y_n == 1)
                        put(c, left ? 0 : to.b, at, y_m, 1);
                    else
                        put(c, left ? 0 : to.b, at, y_m, y_n);
                    if (!SELDOM(left > 0)) break;
                    product.a += product.k * v->w_c, product.b += product.k * v->x_c, adds = 1;
                }
                if (!has_epilogue(v)) continue;
#if CONV_APART < 0
                if (y_n == 1 && v->gate_alike) {
                    const float *gate = v->gate + (at - v->y);
                    float *gated = at;
                    ACTIVATE(MASK_OPEN, gate, y_m, gated, y_m);
                    continue;
                }
#endif
                for (uint32_t m = 0; m < 4; m++) epilogue_row(v, at + m * y_m, 4, y_n);
            }
            turn -= end;
        }
    }
    return turn;
}

/* Of a block's channels the sums of one output; outputs `from` to the end of each row are dealt out. */
static __attribute__((noinline)) uint32_t ones(const conv_t *v, const rectangle_t *r, uint32_t from, uint32_t turn) {
    const uint32_t channels = channels_of(v), cores = hal_core_count(), y_m = v->y_m, end = r->columns - from;
    const uint32_t goes_on = sums_go_on(v), x_c = 4 * v->x_c, w_c = 4 * v->w_c;
    uint32_t row = 0, column = turn;
    for (uint32_t channel = 0; channel < channels; channel++, row = 0) {
        const place_t to = place_of(v, r, channel);
        for (;; column += cores) {
            while (column >= end && row < r->rows) column -= end, row++;
            if (row == r->rows) break;
            const float *x = to.x + (int32_t)row * r->x_row + (int32_t)(from + column) * r->x_column;
            float *const y = to.y + row * r->y_row + (from + column) * r->y_column;
            const float *w0 = to.w, *w1 = w0 + v->w_m, *w2 = w1 + v->w_m, *w3 = w2 + v->w_m;
            uint32_t fresh = v->single || v->first;
            for (uint32_t left = v->c;; fresh = 0) {
                const uint32_t count = hal_min(left, v->together);
                float s[4];
                UNROLL for (uint32_t m = 0; m < 4; m++) s[m] = SELDOM(goes_on) ? y[m * y_m] : 0.0f;
                __asm__ volatile(LOOP("%[count]", 14)
                                 FLW("fa0", "%[x]", 0) FLW("ft0", "%[w0]", 0) FLW("ft1", "%[w1]", 0)
                                 FMA("%[s0]", "ft0", "fa0") FLW("ft2", "%[w2]", 0) FMA("%[s1]", "ft1", "fa0")
                                 FLW("ft3", "%[w3]", 0) FMA("%[s2]", "ft2", "fa0") ADD("%[x]", "%[x_c]")
                                 FMA("%[s3]", "ft3", "fa0") ADD("%[w0]", "%[w_c]") ADD("%[w1]", "%[w_c]")
                                 ADD("%[w2]", "%[w_c]") ADD("%[w3]", "%[w_c]") LOOP_END(14)
                                 : [s0] "+&f"(s[0]), [s1] "+&f"(s[1]), [s2] "+&f"(s[2]), [s3] "+&f"(s[3]),
                                   [x] "+&r"(x), [w0] "+&r"(w0), [w1] "+&r"(w1), [w2] "+&r"(w2), [w3] "+&r"(w3)
                                 : [x_c] "r"(x_c), [w_c] "r"(w_c), [count] "r"(count)
                                 : CLOBBERS);
                if (SELDOM(!fresh)) {
                    UNROLL for (uint32_t m = 0; m < 4; m++) s[m] += y[m * y_m];
                }
                left -= count;
                if (CONV_APART > 0 && to.b && left == 0) {
                    UNROLL for (uint32_t m = 0; m < 4; m++) s[m] += to.b[m];
                }
                UNROLL for (uint32_t m = 0; m < 4; m++) y[m * y_m] = s[m];
                if (!SELDOM(left > 0)) break;
            }
            if (has_epilogue(v)) epilogue_channels(v, y, 4);
        }
    }
    return column;
}

/* All outputs of a rectangle: by fours where these end earlier than four times as many single ones, which cost a third more. */
static uint32_t single_taps(const conv_t *v, const rectangle_t *r, uint32_t turn) {
    const uint32_t cores = hal_core_count(), blocks = channels_of(v) * r->rows * (r->columns >> 2);
    const uint32_t from = blocks && 3 * rounds_of(blocks, cores) <= rounds_of(4 * blocks, cores) ? r->columns & ~3u : 0;
    if (from > 0) turn = fours(v, r, turn);
    return from < r->columns ? ones(v, r, from, turn) : turn;
}

#endif
