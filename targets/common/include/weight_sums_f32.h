/* dW of a convolution. Each tap sums batch, rows and columns of dY in blocks, as products_f32.h says, without padding.
 * A block is some rows of an image, or a part of a long row; rows that all meet padding are none. So the bits do not
 * depend on tiles or cores. Between tiles of the outermost sum that is longer than one, dW holds the raw total.
 * Four filters at a time share what is read of X.
 *
 * Before it is included, WEIGHTS names the kernel's arguments, and COMPLETE(p, w, sum) is what becomes of the weight w when
 * its sum is complete: COMPLETE_SUM the sum itself, COMPLETE_STEP a step against the gradient, in one rounding. */
#ifndef WEIGHT_SUMS_F32_H
#define WEIGHT_SUMS_F32_H

#include "four_f32.h"
#include "hal.h"
#include "products_f32.h"
#include "share_f32.h"
#include "taps_f32.h"

#define COMPLETE_SUM(p, w, sum) (sum)
#define COMPLETE_STEP(p, w, sum) __builtin_fmaf(-(p)->lr, sum, w)

/* A block of a sum: rows a to a_end of an image of dY, columns begin to end. */
typedef struct {
    uint32_t a, a_end, begin, end;
} block_t;

/* The block of one filter; dy and x lie at its first element. */
static float block_one(const WEIGHTS *p, const float *dy, const float *x, const block_t *v, float block) {
    const uint32_t sw = p->sw, count = v->end - v->begin;
    for (uint32_t h = v->a; h < v->a_end; h++, dy += p->dy_h, x += p->sh * p->x_h)
        for (uint32_t j = 0; j < count; j++) block = __builtin_fmaf(dy[j], x[j * sw], block);
    return block;
}

/* The block of four filters. */
static four_t block_four(const WEIGHTS *p, const float *dy, const float *x, const block_t *v, four_t blocks) {
    const uint32_t dy_m = p->dy_m, sw = p->sw;
    for (uint32_t h = v->a; h < v->a_end; h++, dy += p->dy_h, x += p->sh * p->x_h) {
        const float *dy_at = dy, *x_at = x;
        for (uint32_t j = v->begin; j < v->end; j++, x_at += sw) blocks = four_fma(*x_at, dy_at++, dy_m, blocks);
    }
    return blocks;
}

/* The sum of a tap over the batch, for four filters or for one; dy and x are those of the first image, row and column. */
static four_t tap_sums(const WEIGHTS *p, const float *dy, const float *x, uint32_t kh, uint32_t kw,
                       four_t sums, uint32_t filters) {
    const uint32_t rows = products_block(p->oh, p->ow), columns = PRODUCTS_BLOCK;
    const int32_t top = p->top + (int32_t)(kh * p->dh), left = p->left + (int32_t)(kw * p->dw);
    const share_t oh = taps_inside(top, p->oh, p->sh, p->x_rows), ow = taps_inside(left, p->ow, p->sw, p->x_cols);
    block_t v;
    for (uint32_t n = 0; n < p->n; n++)
        for (v.a = oh.begin; v.a < oh.end; v.a = v.a_end) {
            v.a_end = hal_min((v.a / rows + 1) * rows, oh.end);
            for (uint32_t b = 0; b < p->ow; b += columns) {
                const uint32_t first = p->single || (p->first && n == 0 && v.a < rows && b == 0);
                four_t blocks = p->single ? sums : four_zero();
                v.begin = b > ow.begin ? b : ow.begin;
                v.end = hal_min(b + columns, ow.end);
                if (v.begin < v.end) {
                    const float *dy_at = dy + n * p->dy_n + v.a * p->dy_h + v.begin;
                    const float *x_row = x + n * p->x_n + (uint32_t)(top + (int32_t)(v.a * p->sh)) * p->x_h;
                    const float *x_at = x_row + (left + (int32_t)(v.begin * p->sw));
                    if (filters == FOUR)
                        blocks = block_four(p, dy_at, x_at, &v, blocks);
                    else
                        blocks.a = block_one(p, dy_at, x_at, &v, blocks.a);
                }
                sums = four_add(sums, blocks, first);
            }
        }
    return sums;
}

/* All weights of a tile. */
static void weight_sums(const WEIGHTS *p) {
    const uint32_t groups = (p->m + FOUR - 1) / FOUR;
    const share_t share = share_of(p->g * groups * p->c * p->kh);
    for (uint32_t i = share.begin; i < share.end; i++) {
        const uint32_t kh = i % p->kh, part = i / p->kh, c = part % p->c, m = part / p->c % groups * FOUR;
        const uint32_t g = part / p->c / groups, filters = hal_min(FOUR, p->m - m), step = filters == FOUR ? FOUR : 1;
        const float *x = p->x + g * p->x_g + c * p->x_c, *dy = p->dy + g * p->dy_g + m * p->dy_m;
        float *dw = p->grad + g * p->dw_g + m * p->dw_m + c * p->dw_c + kh * p->kw;
        for (uint32_t f = 0; f < filters; f += step)
            for (uint32_t kw = 0; kw < p->kw; kw++) {
                float *at = dw + f * p->dw_m + kw;
                four_t sums = four_zero();
                if (!p->first && step == FOUR) sums = four_load(at, p->dw_m);
                if (!p->first && step == 1) sums.a = *at;
                sums = tap_sums(p, dy + f * p->dy_m, x, kh, kw, sums, step);
                *at = COMPLETE(p, *at, sums.a);
                if (step == 1) continue;
                at[p->dw_m] = COMPLETE(p, at[p->dw_m], sums.b);
                at[2 * p->dw_m] = COMPLETE(p, at[2 * p->dw_m], sums.c);
                at[3 * p->dw_m] = COMPLETE(p, at[3 * p->dw_m], sums.d);
            }
    }
}

#endif
