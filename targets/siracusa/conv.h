/* A convolution or its dX: sums in blocks of outputs, over rectangles of the plane.
 *
 * Before it is included, CONV_CHANNELS says which numbers of channels there are: 4 multiples of four, 1 smaller ones, 5 any.
 * CONV_TAPS says up to how many taps of a row are code without a loop: none with 0; with another number taps lie side by side
 * in the operand, and so do their weights, but with 2 these lie two apart. */
#ifndef CONV_H
#define CONV_H

#include "conv_sums.h"
#include "conv_taps.h"

typedef enum { ONE, FOUR, SIXTEEN } kind_t;

/* All sums of a block, four by four or four or one, in blocks of channels, whose steps are those of a channel. */
INLINE void block(const conv_t *v, nest_t *nest, block_t *b, kind_t kind, uint32_t x_c, uint32_t w_c) {
    const float *const bias = b->bias;
    b->adds = sums_add(v), b->bias = 0;
    for (uint32_t left = v->c;;) {
        const uint32_t count = hal_min(left, v->together);
        nest->count[nest->channels] = count;
        left -= count;
        if (left == 0) b->bias = bias;
        if (CONV_CHANNELS > 1 && kind == SIXTEEN)
            sixteen_sums(nest, b);
        else if (CONV_CHANNELS > 1 || kind == FOUR)
            four_sums(nest, b);
        else
            one_sum(nest, b);
        if (left == 0) return;
        b->adds = 1, b->w += count * w_c;
        for (uint32_t i = 0; i < 4; i++) b->x[i] += count * x_c;
    }
}

/* Of how many channels a block is. */
#if CONV_CHANNELS == 5
#define MANY(M) (M)
#else
#define MANY(M) ((void)(M), CONV_CHANNELS)
#endif

/* All blocks of M by P of outputs from .. from + P * count - 1 of a rectangle: of the channels that make up fours, or of those
 * that are left. `turn` is the block at which this core's turn comes next. */
static __attribute__((noinline)) uint32_t blocks(const conv_t *v, const rectangle_t *r, const uint32_t M,
                                                 const uint32_t P, uint32_t from, uint32_t count, uint32_t turn) {
    const uint32_t cores = hal_core_count(), each = MANY(M) > 1 ? v->m >> 2 : v->m & 3, channels = v->n * v->g * each;
    const uint32_t wide = MANY(M) > P, sixteen = CONV_CHANNELS > 1 && MANY(M) == P && P > 1;
    const uint32_t in_line = sixteen ? r->w == CONV_TAPS && CONV_TAPS < 4 : r->w <= CONV_TAPS;
    const int32_t *const x = wide ? r->w_step : r->x_step, *const w = wide ? r->x_step : r->w_step;
    const int32_t x_step = wide ? (int32_t)v->w_m : P > 1 ? r->x_column : 0;
    const uint32_t y_step = wide ? v->y_m : P > 1 ? r->y_column : 0;
    uint32_t channel = turn, row = 0, column = from, left = count;
    nest_t nest;
    block_t b;
    make_nest(&nest, r, x, w, in_line && r->w >= LEAST_IN_LINE && (P > 1 || wide) ? r->w : 0);
    b.goes_on = sums_go_on(v), b.w_m = 4 * v->w_m, b.y_m = 4 * v->y_m, b.bias_step = wide ? 4 : 0;
    for (;; channel += cores) {
        while (channel >= channels && left > 0) channel -= channels, column += P, left--;
        if (left == 0) return channel;
        while (column >= r->columns) column -= r->columns, row++;
        const float *at = r->x + (int32_t)row * r->x_row + (int32_t)column * r->x_column;
        float *y = r->y + row * r->y_row + column * r->y_column;
        uint32_t m = channel, g = 0, j = column;
        b.w = r->weights;
        if (v->n * v->g > 1) {
            g = each > 1 ? m / each : m, m -= g * each;
            while (g >= v->g) g -= v->g, at += v->x_n, y += v->y_n;
            at += g * v->x_g, y += g * v->y_g, b.w += g * v->w_g;
        }
        m = MANY(M) > 1 ? 4 * m : (v->m & ~3u) + m;
        y += m * v->y_m, b.w += m * v->w_m, b.bias = bias_of(v, g, m);
        if (wide) {
            const float *const weights = b.w;
            b.w = at, at = weights;
        }
        for (uint32_t p = 0; p < (CONV_CHANNELS > 1 ? 4 : P); p++) {
            b.x[p] = at, b.y[p] = y;
            at += x_step, y += y_step;
            if (P > 1 && ++j == r->columns) {
                j = 0, at += r->x_row - (int32_t)r->columns * x_step, y += r->y_row - r->columns * y_step;
            }
        }
        block(v, &nest, &b, sixteen ? SIXTEEN : P > 1 || wide ? FOUR : ONE, (uint32_t)x[2], (uint32_t)w[2]);
        if (!has_epilogue(v)) continue;
        for (uint32_t p = 0; p < P; p++) epilogue_channels(v, b.y[p], MANY(M));
    }
}

/* Whether blocks of four outputs end earlier than four times as many of one, which cost a third more each. */
static inline int use_4x_blocks(uint32_t fours) {
    const uint32_t cores = hal_core_count();
    return 3 * rounds_of(fours, cores) <= rounds_of(4 * fours, cores);
}

static uint32_t rectangle(const conv_t *v, const rectangle_t *r, uint32_t turn) {
    const uint32_t outputs = r->rows * r->columns, fours = outputs >> 2, images = v->n * v->g;
    for (uint32_t M = MANY(v->m > 3 ? 4 : 1);; M = 1) {
        const uint32_t each = images * (MANY(M) > 1 ? v->m >> 2 : v->m & 3);
        const uint32_t singles = fours && use_4x_blocks(each * fours) ? outputs & 3 : outputs;
        for (uint32_t P = 1, from = 0, count = singles;; P = 4, from = singles) {
            const uint32_t all = each * count;
            turn = turn < all ? blocks(v, r, M, P, from, count, turn) : turn - all;
            if (P > 1) break;
            count = (outputs - singles) >> 2;
        }
        if (CONV_CHANNELS < 5 || M == 1 || (v->m & 3) == 0) return turn;
    }
}

#define LIST const void
#define EACH_RECTANGLE(v, r, list, turn) ((void)(list), rectangle(v, r, turn))
#include "conv_rectangles.h"

#if CONV_APART > 0
/* A convolution, all by rectangles. */
static inline void convolve(const conv_f32_args_t *p) {
    const conv_t v = sums_of(p);
    const axis_t rows = rows_of(p), columns = columns_of(p);
    rectangles(&v, &rows, &columns, 0, hal_core_id());
}
#else
/* A dX without strides, all by rectangles. */
static inline void convolve_back(const conv_grad_x_f32_args_t *p) {
    const conv_t v = sums_of(p, p->kh * p->kw);
    const axis_t rows = near_rows_of(p), columns = near_columns_of(p);
    rectangles(&v, &rows, &columns, 0, hal_core_id());
}
#endif

#endif
