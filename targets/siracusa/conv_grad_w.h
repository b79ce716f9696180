/* dW of a convolution; the portable kernel defines the bits: each tap sums batch, rows and columns of dY in blocks of
 * whole rows, or of parts of a long one, to what waits in dW, and skips padding.
 *
 * Some neighbours in a row of taps, of four outputs or one, share what they load. Cores take turns at blocks.
 *
 * Before it is included, TAPS says how many neighbours these are, 1 to 4, WHOLE whether all rows of taps are made of such,
 * BY_PAIRS whether those of four outputs are summed by pairs of columns, and ALONE whether outputs never come by fours.
 * Outputs beside fours come tap by tap where WHOLE and ALONE are 0. */
#ifndef CONV_GRAD_W_H
#define CONV_GRAD_W_H

#include "conv_grad_w_args.h"
#include "gemm_block.h"
#include "hal.h"
#include "products_f32.h"

/* The rows of dY and X that the taps of a block of weights meet, from `row` on: columns `first` to end - 1 of dY have
 * all taps inside X. So many rows `together` or, of longer rows, so many columns are summed from zero; where there are
 * `several` such blocks, functions for one get them one by one. Sums are `fresh`, else added to what waits; a block
 * that is all of the sum `goes_on` from there. */
typedef struct {
    uint32_t several, goes_on, fresh, dw_m, dw_c, row, rows, columns, dy_m, dy_h, x_h, x_tap, x_columns, first, end, sw;
    int32_t left;
    uint32_t together, together_columns, n, dy_n, x_n; /* where there are several, or sums are not fresh */
    float rate; /* with STEPS, where there is one block: the step is then made of sums in registers */
} view_t;

/* s[m][k] += dy[m][column] x[k], of which x[0] lies at column `at` of X, for taps inside X. */
INLINE void border(const view_t *v, const uint32_t M, const uint32_t K, const float *const *dy, uint32_t column,
                   const float *x, int32_t at, float (*s)[4]) {
    UNROLL for (uint32_t k = 0; k < K; k++, at++) {
        if ((uint32_t)at >= v->x_columns) continue;
        UNROLL for (uint32_t m = 0; m < M; m++) s[m][k] = __builtin_fmaf(dy[m][column], x[k], s[m][k]);
    }
}

/* s[m][k] += dy[m] x[k] for taps `from` to K - 1. */
INLINE void edge(const uint32_t M, const uint32_t from, const uint32_t K, const float *const *dy, const float *x,
                 float (*s)[4]) {
    UNROLL for (uint32_t k = from; k < K; k++) {
        UNROLL for (uint32_t m = 0; m < M; m++) s[m][k] = __builtin_fmaf(*dy[m], x[k], s[m][k]);
    }
}

#define TAP(m, k) FMA("%[s" #m #k "]", "fa" #m, "ft" #k)
#define TAP_OF(d, x, k) FMA("%[s" #k "]", d, x)

/* Three taps of four outputs, for `count` columns that lie S bytes apart in X. */
INLINE void inside_43(const float *dy, uint32_t dy_m, const float *x, uint32_t S, uint32_t count, float s[4][4]) {
    __asm__ volatile(
        "mv t0, %[dy]\n add t1, t0, %[dy_m]\n add t2, t1, %[dy_m]\n add t3, t2, %[dy_m]\n mv t4, %[x]\n"
        LOOP("%[count]", 24)
        FLW("ft0", "t4", 0) FLW("fa0", "t0", 0) FLW("fa1", "t1", 0)
        TAP(0, 0) FLW("fa2", "t2", 0) TAP(1, 0) FLW("fa3", "t3", 0) TAP(2, 0) FLW("ft1", "t4", 4)
        TAP(3, 0) FLW("ft2", "t4", 8) TAP(0, 1) ADDI("t0", 4) TAP(1, 1) ADDI("t1", 4) TAP(2, 1) ADDI("t2", 4)
        TAP(3, 1) ADDI("t3", 4) TAP(0, 2) ADD("t4", "%[S]") TAP(1, 2) TAP(2, 2) TAP(3, 2)
        LOOP_END(24)
        : [s00] "+f"(s[0][0]), [s01] "+f"(s[0][1]), [s02] "+f"(s[0][2]), [s10] "+f"(s[1][0]), [s11] "+f"(s[1][1]),
          [s12] "+f"(s[1][2]), [s20] "+f"(s[2][0]), [s21] "+f"(s[2][1]), [s22] "+f"(s[2][2]), [s30] "+f"(s[3][0]),
          [s31] "+f"(s[3][1]), [s32] "+f"(s[3][2])
        : [dy] "r"(dy), [dy_m] "r"(4 * dy_m), [x] "r"(x), [S] "r"(S), [count] "r"(count)
        : "t0", "t1", "t2", "t3", "t4", "ft0", "ft1", "ft2", "fa0", "fa1", "fa2", "fa3", "memory");
}

/* Two taps of four outputs. */
INLINE void inside_42(const float *dy, uint32_t dy_m, const float *x, uint32_t S, uint32_t count, float s[4][4]) {
    __asm__ volatile(
        "mv t0, %[dy]\n add t1, t0, %[dy_m]\n add t2, t1, %[dy_m]\n add t3, t2, %[dy_m]\n mv t4, %[x]\n"
        LOOP("%[count]", 19)
        FLW("ft0", "t4", 0) FLW("fa0", "t0", 0) FLW("fa1", "t1", 0)
        TAP(0, 0) FLW("fa2", "t2", 0) TAP(1, 0) FLW("fa3", "t3", 0) TAP(2, 0) FLW("ft1", "t4", 4)
        TAP(3, 0) ADDI("t0", 4) TAP(0, 1) ADDI("t1", 4) TAP(1, 1) ADDI("t2", 4) TAP(2, 1) ADDI("t3", 4)
        TAP(3, 1) ADD("t4", "%[S]")
        LOOP_END(19)
        : [s00] "+f"(s[0][0]), [s01] "+f"(s[0][1]), [s10] "+f"(s[1][0]), [s11] "+f"(s[1][1]), [s20] "+f"(s[2][0]),
          [s21] "+f"(s[2][1]), [s30] "+f"(s[3][0]), [s31] "+f"(s[3][1])
        : [dy] "r"(dy), [dy_m] "r"(4 * dy_m), [x] "r"(x), [S] "r"(S), [count] "r"(count)
        : "t0", "t1", "t2", "t3", "t4", "ft0", "ft1", "fa0", "fa1", "fa2", "fa3", "memory");
}

/* Three taps of one output; neighbours in X share what they load. */
INLINE void inside_13(const float *dy, const float *x, uint32_t S, uint32_t count, float s[4]) {
    if (S == 4 && count >= 2) {
        __asm__ volatile(LOOP("%[pairs]", 14)
                         FLW("ft0", "%[x]", 0) FLW("fa0", "%[dy]", 0) FLW("ft1", "%[x]", 4) TAP_OF("fa0", "ft0", 0)
                         FLW("ft2", "%[x]", 8) TAP_OF("fa0", "ft1", 1) FLW("fa1", "%[dy]", 4) TAP_OF("fa0", "ft2", 2)
                         FLW("ft3", "%[x]", 12) TAP_OF("fa1", "ft1", 0) ADDI("%[x]", 8) TAP_OF("fa1", "ft2", 1)
                         ADDI("%[dy]", 8) TAP_OF("fa1", "ft3", 2)
                         LOOP_END(14)
                         : [s0] "+f"(s[0]), [s1] "+f"(s[1]), [s2] "+f"(s[2]), [x] "+r"(x), [dy] "+r"(dy)
                         : [pairs] "r"(count >> 1) : "ft0", "ft1", "ft2", "ft3", "fa0", "fa1", "memory");
        count &= 1;
    }
    if (count > 0)
        __asm__ volatile(LOOP("%[count]", 9)
                         FLW("ft0", "%[x]", 0) FLW("fa0", "%[dy]", 0) FLW("ft1", "%[x]", 4) TAP_OF("fa0", "ft0", 0)
                         FLW("ft2", "%[x]", 8) TAP_OF("fa0", "ft1", 1) ADD("%[x]", "%[S]") TAP_OF("fa0", "ft2", 2)
                         ADDI("%[dy]", 4)
                         LOOP_END(9)
                         : [s0] "+f"(s[0]), [s1] "+f"(s[1]), [s2] "+f"(s[2]), [x] "+r"(x), [dy] "+r"(dy)
                         : [S] "r"(S), [count] "r"(count) : "ft0", "ft1", "ft2", "fa0", "memory");
}

/* `count` columns with all taps inside X, S apart in X. */
INLINE void inside(const uint32_t M, const uint32_t K, const float *dy[4], uint32_t dy_m, const float *x, uint32_t S,
                   uint32_t count, float s[4][4]) {
    if (K == 2 && M == 4) {
        inside_42(dy[0], dy_m, x, 4 * S, count, s);
    } else if (K == 3 && M == 4) {
        inside_43(dy[0], dy_m, x, 4 * S, count, s);
    } else if (K == 3 && M == 1) {
        inside_13(dy[0], x, 4 * S, count, s[0]);
    } else {
        const float *at[4];
        UNROLL for (uint32_t m = 0; m < M; m++) at[m] = dy[m];
        for (; count > 0; count--, x += S) {
            UNROLL for (uint32_t k = 0; k < K; k++) {
                UNROLL for (uint32_t m = 0; m < M; m++) s[m][k] = __builtin_fmaf(*at[m], x[k], s[m][k]);
            }
            UNROLL for (uint32_t m = 0; m < M; m++) at[m]++;
        }
    }
}

/* K taps of M outputs, from some rows of dY and X that meet on. Columns at the borders have no tap where K is one,
 * mostly all but one, and seldom others. */
INLINE void sums(const view_t *v, const uint32_t M, const uint32_t K, const float *dy, const float *x, float s[4][4]) {
    const uint32_t dy_m = v->dy_m, first = v->first, last = v->columns - v->end, S = v->sw, middle = v->end - first;
    const int32_t right = v->left + (int32_t)(v->end * S), room = (int32_t)v->x_columns;
    const int left_edge = first == 1 && v->left == -1 && room >= (int32_t)K - 1;
    const int right_edge = last == 1 && right >= 0 && right + (int32_t)K - 1 == room;
    const float *x_row = x + v->left;
    for (uint32_t rows = v->rows; rows > 0; rows--, dy += v->dy_h, x_row += v->x_h) {
        const float *d[4], *at = x_row;
        UNROLL for (uint32_t m = 0; m < M; m++) d[m] = dy + m * dy_m;
        if (K > 1 && left_edge)
            edge(M, 1, K, d, at, s);
        else
            for (uint32_t i = 0; K > 1 && i < first; i++)
                border(v, M, K, d, i, at + i * S, v->left + (int32_t)(i * S), s);
        at += first * S;
        UNROLL for (uint32_t m = 0; m < M; m++) d[m] += first;
        if (middle > 0) inside(M, K, d, dy_m, at, S, middle, s);
        at += middle * S;
        UNROLL for (uint32_t m = 0; m < M; m++) d[m] += middle;
        if (K > 1 && right_edge)
            edge(M, 0, K - 1, d, at, s);
        else
            for (uint32_t i = 0; K > 1 && i < last; i++)
                border(v, M, K, d, i, at + i * S, right + (int32_t)(i * S), s);
    }
}

/* All sums of M by K weights: one block of rows, to what waits in dW. */
INLINE void block(const view_t *v, const uint32_t M, const uint32_t K, const float *dy, const float *x, float *dw) {
    const uint32_t dw_m = v->dw_m;
    float s[4][4];
    UNROLL for (uint32_t m = 0; m < M; m++) {
        UNROLL for (uint32_t k = 0; k < K; k++) s[m][k] = v->goes_on ? dw[m * dw_m + k] : 0.0f;
    }
    sums(v, M, K, dy, x, s);
    if (__builtin_expect(!v->fresh, 0)) {
        UNROLL for (uint32_t m = 0; m < M; m++) {
            UNROLL for (uint32_t k = 0; k < K; k++) s[m][k] += dw[m * dw_m + k];
        }
    }
    if (STEPS && !v->several) {
        const float rate = v->rate;
        UNROLL for (uint32_t m = 0; m < M; m++) {
            UNROLL for (uint32_t k = 0; k < K; k++) s[m][k] = __builtin_fmaf(-rate, s[m][k], dw[m * dw_m + k]);
        }
    }
    UNROLL for (uint32_t m = 0; m < M; m++) {
        UNROLL for (uint32_t k = 0; k < K; k++) dw[m * dw_m + k] = s[m][k];
    }
}

typedef void (*block_t)(const view_t *v, const float *dy, const float *x, float *dw);

#define BLOCK(M, K)                                                                                                   \
    static __attribute__((noinline, unused)) void block_##M##K(const view_t *v, const float *dy, const float *x, float *dw) { \
        block(v, M, K, dy, x, dw);                                                                                    \
    }
BLOCK(4, 1)
BLOCK(4, 2)
BLOCK(4, 3)
BLOCK(4, 4)
BLOCK(1, 1)
BLOCK(1, 2)
BLOCK(1, 3)
BLOCK(1, 4)

#include "conv_grad_w_pairs.h"

INLINE block_t block_of(uint32_t M, const uint32_t taps) {
    if (taps == 4) return M == 4 && !ALONE ? block_44 : ALONE ? block_14 : block_11;
    if (taps == 3 && BY_PAIRS) return M == 4 ? block_pairs : block_13;
    if (taps == 3) return M == 4 ? block_43 : block_13;
    if (taps == 2) return M == 4 ? block_42 : block_12;
    return M == 4 && !ALONE ? block_41 : block_11;
}

/* Several blocks: of rows, or of columns of longer rows. A first one without a row is zero. */
static __attribute__((noinline, unused)) void blocks(view_t *v, block_t run, const float *dy, const float *x, float *dw) {
    const uint32_t fresh = v->fresh, row = v->row, rows = v->rows, columns = v->columns, first = v->first, end = v->end;
    const uint32_t together = v->together, part = v->together_columns;
    const int32_t begin_left = v->left;
    uint32_t begin = together;
    while (row >= begin) begin += together;
    begin = hal_min(begin - row, rows);
    if (fresh && (rows == 0 || row >= together)) v->rows = 0, run(v, dy, x, dw), v->fresh = 0;
    for (uint32_t n = v->n; n > 0; n--, dy += v->dy_n, x += v->x_n) {
        const float *dy_row = dy, *x_row = x;
        for (uint32_t left = rows, some = begin; left > 0; left -= some, some = hal_min(left, together)) {
            v->rows = some;
            if (columns <= part) {
                run(v, dy_row, x_row, dw);
                v->fresh = 0;
            } else {
                for (uint32_t at = 0; at < columns; at += v->columns, v->fresh = 0) {
                    v->columns = hal_min(part, columns - at);
                    v->first = first < at ? 0 : hal_min(first - at, v->columns);
                    v->end = end < at + v->first ? v->first : hal_min(end - at, v->columns);
                    v->left = begin_left + (int32_t)(at * v->sw);
                    run(v, dy_row + at, x_row, dw);
                }
            }
            dy_row += some * v->dy_h, x_row += some * v->x_h;
        }
    }
    v->fresh = fresh, v->rows = rows, v->columns = columns, v->first = first, v->end = end, v->left = begin_left;
}

#define STEP_FROM(s, w, at) FLW(s, "%[sums]", at) FLW(w, "%[w]", at)
#define STEP_TO(s, w) "fnmsub.s " w ", %[rate], " s ", " w "\n"
#define STEP_OPERANDS [sums] "+&r"(sums), [w] "+&r"(w)

/* A step against M rows of K sums on the stack. Rows lie four floats apart; a single row may be longer. */
static __attribute__((noinline, unused)) void step_rows(const args_t *p, const float *sums, float *w, uint32_t w_m,
                                                        uint32_t M, uint32_t K) {
    const float rate = RATE(p);
    if (TAPS != 4 && K == 4) { /* else it is more code than the limit allows, for sums that are long */
        __asm__ volatile(LOOP("%[M]", 18)
                         STEP_FROM("ft0", "fa0", 0) STEP_FROM("ft1", "fa1", 4) STEP_FROM("ft2", "fa2", 8)
                         STEP_FROM("ft3", "fa3", 12) STEP_TO("ft0", "fa0") STEP_TO("ft1", "fa1") STEP_TO("ft2", "fa2")
                         STEP_TO("ft3", "fa3") FSW("fa0", "%[w]", 0) FSW("fa1", "%[w]", 4) FSW("fa2", "%[w]", 8)
                         FSW("fa3", "%[w]", 12) ADDI("%[sums]", 16) ADD("%[w]", "%[w_m]")
                         LOOP_END(18)
                         : STEP_OPERANDS : [M] "r"(M), [w_m] "r"(4 * w_m), [rate] "f"(rate) : CLOBBERS);
    } else if (TAPS == 3 && K == 3) {
        __asm__ volatile(LOOP("%[M]", 14)
                         STEP_FROM("ft0", "fa0", 0) STEP_FROM("ft1", "fa1", 4) STEP_FROM("ft2", "fa2", 8)
                         STEP_TO("ft0", "fa0") STEP_TO("ft1", "fa1") FSW("fa0", "%[w]", 0) STEP_TO("ft2", "fa2")
                         FSW("fa1", "%[w]", 4) ADDI("%[sums]", 16) FSW("fa2", "%[w]", 8) ADD("%[w]", "%[w_m]")
                         LOOP_END(14)
                         : STEP_OPERANDS : [M] "r"(M), [w_m] "r"(4 * w_m), [rate] "f"(rate) : CLOBBERS);
    } else {
        for (const float *row = sums;; row += 4, sums = row, w += w_m - K) {
            __asm__ volatile(LOOP("%[K]", 6)
                             STEP_FROM("ft0", "fa0", 0) ADDI("%[sums]", 4) STEP_TO("ft0", "fa0") FSW("fa0", "%[w]", 0)
                             ADDI("%[w]", 4)
                             LOOP_END(6)
                             : STEP_OPERANDS : [K] "r"(K), [rate] "f"(rate) : CLOBBERS);
            if (--M == 0) break;
        }
    }
}

/* Where group, output and channel of a block's first weight lie. */
typedef struct {
    const float *dy, *x;
    float *dw;
} place_t;

/* Block `index` of blocks of M outputs from m on by C channels, channels innermost, `outputs` blocks in a group. */
static inline place_t place_of(const args_t *p, uint32_t index, uint32_t m, uint32_t M, uint32_t outputs,
                               uint32_t channels, uint32_t C) {
    uint32_t c = 0, g = 0;
    if (channels > 1) c = index, index /= channels, c -= index * channels;
    if (p->g > 1) g = outputs > 1 ? index / outputs : index, index -= g * outputs;
    m += index * M, c *= C;
    return (place_t){p->dy + g * p->dy_g + m * p->dy_m, p->x + g * p->x_g + c * p->x_c,
                     p->grad + g * p->dw_g + m * p->dw_m + c * p->dw_c};
}

static inline uint32_t ends(int32_t at, int32_t step, uint32_t length, uint32_t count) {
    while (count > 0 && at + (int32_t)(count - 1) * step >= (int32_t)length) count--;
    return count;
}

static inline uint32_t begins(int32_t at, int32_t step, uint32_t count) {
    uint32_t first = 0;
    while (first < count && at + (int32_t)first * step < 0) first++;
    return first;
}

/* All taps of outputs m .. m + M * outputs - 1 of each group. */
static __attribute__((unused)) uint32_t taps(const args_t *p, view_t *v, uint32_t oh, uint32_t m, uint32_t M,
                                             uint32_t outputs, uint32_t turn) {
    const uint32_t cores = hal_core_count(), count = p->g * outputs * p->c;
    for (uint32_t kh = 0; kh < p->kh; kh++) {
        const int32_t top = p->top + (int32_t)(kh * p->dh);
        const uint32_t first = begins(top, (int32_t)p->sh, oh), end = ends(top, (int32_t)p->sh, p->x_rows, oh);
        const int32_t x_row = (top + (int32_t)(first * p->sh)) * (int32_t)p->x_h;
        v->row = first, v->rows = first < end ? end - first : 0;
        for (uint32_t kw = 0, some; kw < p->kw; kw += some) {
            const int together = WHOLE || ((ALONE || M == 4) && p->kw - kw >= TAPS);
            some = together ? TAPS : 1;
            v->left = p->left + (int32_t)(kw * p->dw);
            v->first = begins(v->left, (int32_t)p->sw, v->columns);
            v->end = ends(v->left + (int32_t)some - 1, (int32_t)p->sw, v->x_columns, v->columns);
            if (v->end < v->first) v->end = v->first;
            const block_t run = together ? block_of(M, TAPS) : block_of(M, 1);
            for (; turn < count; turn += cores) {
                const place_t to = place_of(p, turn, m, M, outputs, p->c, 1);
                const float *dy = to.dy + first * p->dy_h, *x = to.x + x_row;
                float *dw = to.dw + kh * p->kw + kw, sums[16], *at = STEPS && v->several ? sums : dw;
                if (v->several)
                    blocks(v, run, dy, x, at);
                else if (v->fresh || v->rows > 0)
                    run(v, dy, x, at);
                if (STEPS && v->several) step_rows(p, sums, dw, p->dw_m, M, some);
            }
            turn -= count;
        }
    }
    return turn;
}

static __attribute__((noinline)) void find_blocks(const args_t *p, view_t *v, int merges) {
    const uint32_t together = products_block(p->oh, p->ow);
    v->together = merges ? 1 : together, v->together_columns = merges ? together * p->ow : PRODUCTS_BLOCK;
    v->n = p->n, v->dy_n = p->dy_n, v->x_n = p->x_n;
}

/* What all blocks have in common; where a plane `merges` it is a row. */
INLINE view_t view_of(const args_t *p, const int merges) {
    view_t v; /* who takes it does the rest */
    v.several = p->n > 1 || p->oh * p->ow > PRODUCTS_BLOCK;
    v.goes_on = p->single && !p->first, v.fresh = p->single || p->first;
    if (v.several || !v.fresh) find_blocks(p, &v, merges);
    v.columns = merges ? p->oh * p->ow : p->ow, v.x_columns = merges ? v.columns : p->x_cols, v.sw = p->sw;
    v.dw_m = STEPS && v.several ? 4 : p->dw_m;
    v.dy_m = p->dy_m, v.dy_h = p->dy_h, v.x_h = p->sh * p->x_h, v.x_tap = p->dh * p->x_h;
    if (STEPS) v.dw_c = v.several ? 1 : p->dw_c, v.rate = RATE(p);
    return v;
}

/* Outputs by fours, where that ends before four times as many by themselves do, and what is left. */
INLINE void weights(const args_t *p) {
    const uint32_t cores = hal_core_count(), fours = p->m >> 2, blocks = p->g * fours * p->c * p->kh;
    view_t v = view_of(p, 0);
    uint32_t turn = hal_core_id(), done = 0;
    if (!ALONE && fours > 0 && 16 * rounds_of(blocks, cores) <= 5 * rounds_of(4 * blocks, cores)) {
        turn = taps(p, &v, p->oh, 0, 4, fours, turn);
        done = 4 * fours;
    }
    if (done < p->m) taps(p, &v, p->oh, done, 1, p->m - done, turn);
}

#endif
