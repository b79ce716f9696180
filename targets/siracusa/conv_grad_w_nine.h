/* Three by three taps of one output and one channel, which share each load of dY. */
#ifndef CONV_GRAD_W_NINE_H
#define CONV_GRAD_W_NINE_H

#define TAPS 1
#define WHOLE 1
#define BY_PAIRS 0
#define ALONE 1
#include "conv_grad_w.h"

#define NINE(h, k) FMA("%[s" #h #k "]", "fa0", "ft" #k)

/* `count` columns with all taps inside X, S bytes apart in X; rows of taps lie x_tap bytes apart. */
INLINE void inside_33(const float *dy, const float *x, uint32_t x_tap, uint32_t S, uint32_t count, float s[3][4]) {
    __asm__ volatile(
        "mv t0, %[dy]\n mv t1, %[x]\n add t2, t1, %[x_tap]\n add t3, t2, %[x_tap]\n"
        LOOP("%[count]", 23)
        FLW("ft0", "t1", 0) FLW("fa0", "t0", 0) FLW("ft1", "t1", 4)
        NINE(0, 0) FLW("ft2", "t1", 8) NINE(0, 1) FLW("ft0", "t2", 0) NINE(0, 2) FLW("ft1", "t2", 4)
        NINE(1, 0) FLW("ft2", "t2", 8) NINE(1, 1) FLW("ft0", "t3", 0) NINE(1, 2) FLW("ft1", "t3", 4)
        NINE(2, 0) FLW("ft2", "t3", 8) NINE(2, 1) ADD("t1", "%[S]") ADD("t2", "%[S]") NINE(2, 2)
        ADD("t3", "%[S]") ADDI("t0", 4)
        LOOP_END(23)
        : [s00] "+f"(s[0][0]), [s01] "+f"(s[0][1]), [s02] "+f"(s[0][2]), [s10] "+f"(s[1][0]), [s11] "+f"(s[1][1]),
          [s12] "+f"(s[1][2]), [s20] "+f"(s[2][0]), [s21] "+f"(s[2][1]), [s22] "+f"(s[2][2])
        : [dy] "r"(dy), [x] "r"(x), [x_tap] "r"(x_tap), [S] "r"(S), [count] "r"(count)
        : "t0", "t1", "t2", "t3", "ft0", "ft1", "ft2", "fa0", "memory");
}

/* Columns of a row whose taps partly lie outside X, in rows `from` to H - 1 of the taps. */
INLINE void edges(const view_t *v, const uint32_t from, const uint32_t H, const float *dy, const float *x, int32_t at,
                    uint32_t count, float s[3][4]) {
    for (; count > 0; count--, dy++, x += v->sw, at += (int32_t)v->sw) {
        UNROLL for (uint32_t h = from; h < H; h++) border(v, 1, 3, &dy, 0, x + h * v->x_tap, at, s + h);
    }
}

/* One row of dY and rows `from` to H - 1 of the taps. */
INLINE void row_33(const view_t *v, const uint32_t from, const uint32_t H, const float *dy, const float *x,
                   int left_edge, int right_edge, float s[3][4]) {
    const uint32_t first = v->first, last = v->columns - v->end, middle = v->end - first, S = v->sw, x_tap = v->x_tap;
    if (left_edge) {
        UNROLL for (uint32_t h = from; h < H; h++) edge(1, 1, 3, &dy, x + h * x_tap, s + h);
    } else {
        edges(v, from, H, dy, x, v->left, first, s);
    }
    dy += first, x += first * S;
    if (middle > 0 && H - from == 3)
        inside_33(dy, x, 4 * x_tap, 4 * S, middle, s);
    else if (middle > 0) {
        UNROLL for (uint32_t h = from; h < H; h++) inside_13(dy, x + h * x_tap, 4 * S, middle, s[h]);
    }
    dy += middle, x += middle * S;
    if (right_edge) {
        UNROLL for (uint32_t h = from; h < H; h++) edge(1, 0, 2, &dy, x + h * x_tap, s + h);
    } else {
        edges(v, from, H, dy, x, v->left + (int32_t)(v->end * S), last, s);
    }
}

/* Rows of dY that meet X with each row of taps. */
typedef struct {
    uint32_t first[3], end[3];
} rows_t;

/* One block: rows `row` to end - 1 of dY, to what waits in dW. */
static __attribute__((noinline)) void block_33(const view_t *v, const rows_t *rows, uint32_t row, uint32_t end,
                                               const float *dy, const float *x, float *dw) {
    const uint32_t last = v->columns - v->end, low = rows->first[0], high = rows->end[2], begin = row;
    const int32_t right = v->left + (int32_t)(v->end * v->sw), room = (int32_t)v->x_columns;
    const int left_edge = v->first == 1 && v->left == -1 && room >= 2;
    const int right_edge = last == 1 && right >= 0 && right + 2 == room;
    float s[3][4];
    UNROLL for (uint32_t h = 0; h < 3; h++) {
        UNROLL for (uint32_t k = 0; k < 3; k++) s[h][k] = v->goes_on ? dw[3 * h + k] : 0.0f;
    }
    dy += row * v->dy_h, x += v->left + (int32_t)(row * v->x_h);
    for (; row < end; row++, dy += v->dy_h, x += v->x_h) {
        if (row >= low && row < high) {
            row_33(v, 0, 3, dy, x, left_edge, right_edge, s);
        } else {
            UNROLL for (uint32_t h = 0; h < 3; h++) {
                if (row >= rows->first[h] && row < rows->end[h]) row_33(v, h, h + 1, dy, x, left_edge, right_edge, s);
            }
        }
    }
    if (__builtin_expect(!v->fresh, 0)) {
        UNROLL for (uint32_t h = 0; h < 3; h++) {
            const int none = rows->first[h] >= end || rows->end[h] <= begin;
            UNROLL for (uint32_t k = 0; k < 3; k++) s[h][k] = none ? dw[3 * h + k] : s[h][k] + dw[3 * h + k];
        }
    }
    UNROLL for (uint32_t h = 0; h < 3; h++) {
        UNROLL for (uint32_t k = 0; k < 3; k++) dw[3 * h + k] = s[h][k];
    }
}

/* All blocks of all images; the first may be without a row, and is zero. */
static __attribute__((noinline)) void blocks_33(view_t *v, const rows_t *rows, uint32_t first_row, uint32_t end_row,
                                                const float *dy, const float *x, float *dw) {
    const uint32_t fresh = v->fresh;
    if (fresh && (first_row >= end_row || first_row >= v->together)) {
        block_33(v, rows, first_row, first_row, dy, x, dw);
        v->fresh = 0;
    }
    for (uint32_t n = v->n; n > 0; n--, dy += v->dy_n, x += v->x_n) {
        uint32_t end = v->together;
        while (first_row >= end) end += v->together;
        for (uint32_t row = first_row; row < end_row; row = end, end += v->together, v->fresh = 0)
            block_33(v, rows, row, hal_min(end, end_row), dy, x, dw);
    }
    v->fresh = fresh;
}

/* Cores take turns at channels. */
static __attribute__((noinline)) void depthwise(const args_t *p, view_t *v) {
    const uint32_t cores = hal_core_count();
    rows_t rows;
    for (uint32_t h = 0; h < 3; h++) {
        rows.first[h] = begins(p->top + (int32_t)(h * p->dh), (int32_t)p->sh, p->oh);
        rows.end[h] = ends(p->top + (int32_t)(h * p->dh), (int32_t)p->sh, p->x_rows, p->oh);
    }
    v->left = p->left;
    v->first = begins(v->left, (int32_t)p->sw, v->columns);
    v->end = ends(v->left + 2, (int32_t)p->sw, v->x_columns, v->columns);
    if (v->end < v->first) v->end = v->first;
    for (uint32_t g = hal_core_id(); g < p->g; g += cores) {
        const float *dy = p->dy + g * p->dy_g, *x = p->x + g * p->x_g + p->top * (int32_t)p->x_h;
        float *dw = p->grad + g * p->dw_g, sums[9], *at = STEPS ? sums : dw;
        if (v->several)
            blocks_33(v, &rows, rows.first[2], rows.end[0], dy, x, at);
        else
            block_33(v, &rows, rows.first[2], rows.end[0], dy, x, at);
        if (STEPS) step_rows(p, sums, dw, 0, 1, 9);
    }
}

static inline void nine_taps(const args_t *p) {
    view_t v = view_of(p, 0);
    depthwise(p, &v);
}

#endif
