/* Depthwise windows of three by three neighbours without stride along a row, by themselves: what conv.h needs for any window
 * is code, and where planes are small the fetch of code is what takes time. A plane is cut into strips of up to four columns,
 * whose outputs share what they load; the sums of a row of a strip stay in registers. */
#ifndef CONV_STRIPS_H
#define CONV_STRIPS_H

#include "hal.h"
#include "hints.h"
#include "pulp.h"

/* Planes of `groups` channels in each of some images. The taps of output row i begin in row top + i * move of the operand's
 * `x_rows` rows, and the next two rows of taps lie `apart` rows on; those of output column j are columns left + j to
 * left + j + 2 of `x_columns`. */
typedef struct {
    const float *x, *w, *b, *gate;
    float *y;
    uint32_t images, groups, rows, columns, x_rows, x_columns, x_n, x_g, x_h, w_g, w_h, b_g, y_n, y_g, y_h, relu;
    uint32_t gate_n, gate_g, gate_h;
    int32_t top, left, move, apart;
} strips_t;

/* What a strip begins with: row 0 of its outputs, whose taps begin in row `at` of the operand. Without `before` the first
 * column has no tap to its left, without `behind` the last one none to its right. */
typedef struct {
    const float *x, *w, *gate;
    float *y, bias;
    uint32_t before, behind, rows;
    int32_t at;
} strip_t;

/* s[p] += the sum over a row of three taps, in the order of the weights; x[0] lies left of the first output's centre. */
INLINE void add_row(const uint32_t P, const float *x, const float w[3], uint32_t before, uint32_t behind, float s[4]) {
#if CONV_APART == 1
    if (OFTEN(before)) s[0] = __builtin_fmaf(x[0], w[0], s[0]);
    UNROLL for (uint32_t p = 1; p < P; p++) s[p] = __builtin_fmaf(x[p], w[0], s[p]);
    UNROLL for (uint32_t p = 0; p < P; p++) s[p] = __builtin_fmaf(x[p + 1], w[1], s[p]);
    UNROLL for (uint32_t p = 0; p + 1 < P; p++) s[p] = __builtin_fmaf(x[p + 2], w[2], s[p]);
    if (OFTEN(behind)) s[P - 1] = __builtin_fmaf(x[P + 1], w[2], s[P - 1]);
#else
    if (OFTEN(behind)) s[P - 1] = __builtin_fmaf(x[P + 1], w[0], s[P - 1]);
    UNROLL for (uint32_t p = 0; p + 1 < P; p++) s[p] = __builtin_fmaf(x[p + 2], w[0], s[p]);
    UNROLL for (uint32_t p = 0; p < P; p++) s[p] = __builtin_fmaf(x[p + 1], w[1], s[p]);
    UNROLL for (uint32_t p = 1; p < P; p++) s[p] = __builtin_fmaf(x[p], w[2], s[p]);
    if (OFTEN(before)) s[0] = __builtin_fmaf(x[0], w[2], s[0]);
#endif
}

/* The sum, or zero where it may not pass, by a mask of all bits. */
INLINE float masked(float sum, uint32_t passes) {
    return float_in_fpu(bits_in_core(sum) & (0u - passes));
}

/* All rows of P columns. Nothing is called, so that no register must be saved. */
INLINE void strip(const strips_t *v, const strip_t *t, const uint32_t P) {
    const int32_t x_h = (int32_t)v->x_h, x_row = v->move * x_h, x_next = v->apart * x_h, apart = v->apart, move = v->move;
    const uint32_t length = v->x_rows, y_h = v->y_h, gate_h = v->gate_h, before = t->before, behind = t->behind;
    const uint32_t relu = v->relu, biased = v->b != 0;
    const float *x = t->x, *gate = t->gate, bias = t->bias;
    float *y = t->y, w[3][3];
    int32_t at = t->at;
    UNROLL for (uint32_t a = 0; a < 3; a++) {
        UNROLL for (uint32_t b = 0; b < 3; b++) w[a][b] = t->w[a * v->w_h + b];
    }
    for (uint32_t rows = t->rows; rows > 0; rows--, x += x_row, y += y_h, at += move) {
        float s[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        if (OFTEN((uint32_t)at < length)) add_row(P, x, w[0], before, behind, s);
        if (OFTEN((uint32_t)(at + apart) < length)) add_row(P, x + x_next, w[1], before, behind, s);
        if (OFTEN((uint32_t)(at + 2 * apart) < length)) add_row(P, x + 2 * x_next, w[2], before, behind, s);
#if CONV_APART == 1
        if (SELDOM(biased)) {
            UNROLL for (uint32_t p = 0; p < P; p++) s[p] += bias;
        }
        if (SELDOM(relu)) {
            UNROLL for (uint32_t p = 0; p < P; p++) s[p] = masked(s[p], !(s[p] <= 0.0f));
        }
        (void)gate, (void)gate_h;
#else
        if (gate) {
            UNROLL for (uint32_t p = 0; p < P; p++) s[p] = masked(s[p], gate[p] > 0.0f);
            gate += gate_h;
        }
        (void)bias, (void)biased, (void)relu;
#endif
        UNROLL for (uint32_t p = 0; p < P; p++) y[p] = s[p];
    }
}

#define CONV_STRIP(P)                                                                                                 \
    static __attribute__((noinline)) void strip_##P(const strips_t *v, const strip_t *t) {                            \
        strip(v, t, P);                                                                                               \
    }
CONV_STRIP(1)
CONV_STRIP(2)
CONV_STRIP(3)
CONV_STRIP(4)

/* Cores take turns at channels; where these are few, at halves or quarters of the rows of one. */
static inline void strips(const strips_t *v) {
    const uint32_t cores = hal_core_count(), planes = v->images * v->groups, columns = v->columns;
    const int32_t width = (int32_t)v->x_columns, low = v->left;
    uint32_t parts = 1, piece = v->rows;
    while (parts < 4 && planes * parts < 4 * cores && planes * parts != cores * rounds_of(planes * parts, cores)) parts *= 2;
    if (parts > 1) piece = (piece + parts - 1) >> (parts >> 1); /* 2 or 4 parts */
    for (uint32_t turn = hal_core_id(); turn < planes * parts; turn += cores) {
        uint32_t g = turn, part = 0, n = 0;
        while (g >= planes) g -= planes, part++;
        while (g >= v->groups) g -= v->groups, n++;
        const uint32_t row = part * piece, last = hal_min(row + piece, v->rows);
        if (row >= last) continue;
        strip_t t;
        t.at = v->top + (int32_t)row * v->move, t.rows = last - row, t.w = v->w + g * v->w_g;
        t.bias = v->b ? v->b[g * v->b_g] : 0.0f, t.gate = 0;
        const uint32_t y_at = n * v->y_n + g * v->y_g + row * v->y_h;
        const uint32_t gate_at = n * v->gate_n + g * v->gate_g + row * v->gate_h;
        const float *x = v->x + n * v->x_n + g * v->x_g + t.at * (int32_t)v->x_h + low;
        for (uint32_t j = 0; j < columns; j += 4) {
            const uint32_t left = columns - j;
            t.x = x + j, t.y = v->y + y_at + j;
            if (v->gate) t.gate = v->gate + gate_at + j;
            t.before = j > 0 || low >= 0;
            t.behind = columns - j > 4 || low + (int32_t)columns + 1 < width;
            if (left >= 4) {
                strip_4(v, &t);
            } else if (left == 3) {
                strip_3(v, &t);
            } else if (left == 2) {
                strip_2(v, &t);
            } else {
                strip_1(v, &t);
            }
        }
    }
}

#endif
