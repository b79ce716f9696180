/* Three by three taps for four neighbours in a row, from the first column to the last.
 *
 * They share six values of a row of the operand. At the borders of a plane the first or the last of the four has no tap
 * outside; rows of outputs have as many rows of taps as lie inside. */
#ifndef CONV_FOURS_H
#define CONV_FOURS_H

#include "conv_sums.h"
#include "scheduled_taps.h"

/* Values 0 .. 5 of a row in fa0 .. fa5: tap b of output p meets value p + b. Where taps go back through the operand,
 * values and outputs are counted from their ends, so that it is the same. */
#define VALUE(k) FLW("fa" #k, "t4", 4 * CONV_APART * k)
#define EVEN(m, tap) FLW("ft" #m, "t" #m, 4 * tap)
#define ODD(m, tap, to) FLW("ft" #to, "t" #m, 4 * tap)
#define SUM(m, p, w, x) FMA("%[c" #m #p "]", "ft" #w, "fa" #x)

/* Where a window moves by two forward, tap b of output p meets value 2 p + b. Even values lie in fa0 .. fa3, the last
 * of them in fa0 again; odd ones in fa4 .. fa7. */
#define WIDE(k, to) FLW("fa" #to, "t4", 4 * k)

#if CONV_APART == 1
#define PLACE(p) (p)
#else
#define PLACE(p) (3 - (p))
#endif

#define FOURS(row)                                                                                                    \
    __asm__ volatile(                                                                                                 \
        "bnez %[sums], 3f\n"                                                                                          \
        ROW_ZERO(c00, c01, c02, c03) ROW_ZERO(c10, c11, c12, c13) ROW_ZERO(c20, c21, c22, c23)                        \
        ROW_ZERO(c30, c31, c32, c33)                                                                                  \
        "2: mv t0, %[w]\n add t1, t0, %[w_m]\n add t2, t1, %[w_m]\n add t3, t2, %[w_m]\n mv t4, %[x]\n"               \
        LOOP_OUTER("%[channels]", row##_LENGTH + 6) LOOP("%[rows]", row##_LENGTH) row LOOP_END(row##_LENGTH)          \
        ADD("t0", "%[w_c]") ADD("t1", "%[w_c]") ADD("t2", "%[w_c]") ADD("t3", "%[w_c]") ADD("t4", "%[x_c]")           \
        LOOP_OUTER_END(row##_LENGTH + 6)                                                                              \
        ".subsection 1\n3: mv t0, %[sums]\n"                                                                          \
        ROW_IN(c00, c01, c02, c03) ADDI("t0", 16) ROW_IN(c10, c11, c12, c13) ADDI("t0", 16)                           \
        ROW_IN(c20, c21, c22, c23) ADDI("t0", 16) ROW_IN(c30, c31, c32, c33) "j 2b\n.previous\n"                      \
        : SUMS_OUT(c)                                                                                                 \
        : [sums] "r"(sums), [x] "r"(x), [w] "r"(w), [w_m] "r"(4 * v->w_m), [x_h] "r"(4 * x_h), [w_h] "r"(4 * w_h),    \
          [x_c] "r"(4 * ((int32_t)v->x_c - (int32_t)rows * x_h)),                                                     \
          [w_c] "r"(4 * ((int32_t)v->w_c - (int32_t)rows * w_h)), [rows] "r"(rows), [channels] "r"(count)             \
        : "t0", "t1", "t2", "t3", "t4", "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fa0", "fa1", "fa2",  \
          "fa3", "fa4", "fa5", "fa6", "fa7", "memory")

/* The taps of a row: all three of them, or without the first one of output 0 or the last one of output 3; two that lie
 * two apart, or without the first one of output 0; one; or three of a window that moves by two. */
typedef enum { THREE, THREE_BUT_FIRST, THREE_BUT_LAST, MOVING, MOVING_BUT_FIRST, TWO, TWO_BUT_FIRST, ONE } taps_t;

/* Before it is included, FOURS_KINDS has a bit for each kind of rows that there are: one loop of outputs is for all of them. */
#define IS(kind) ((FOURS_KINDS) == 1 << (kind) || (((FOURS_KINDS) & 1 << (kind)) && taps == (kind)))

/* c[m][PLACE(p)] = zero, or `sums`, + the sum over `count` channels and `rows` rows of taps. */
INLINE void add_fours(const conv_t *v, const taps_t taps, uint32_t count, uint32_t rows, const float *x, int32_t x_h,
                      const float *w, int32_t w_h, const float *sums, float c[4][4]) {
    if (IS(THREE))
        FOURS(FOURS_THREE);
    else if (IS(THREE_BUT_FIRST))
        FOURS(FOURS_THREE_BUT_FIRST);
    else if (IS(THREE_BUT_LAST))
        FOURS(FOURS_THREE_BUT_LAST);
#if CONV_APART == 1
    else if (IS(MOVING))
        FOURS(FOURS_MOVING);
    else if (IS(MOVING_BUT_FIRST))
        FOURS(FOURS_MOVING_BUT_FIRST);
#endif
    else if (IS(TWO))
        FOURS(FOURS_TWO);
    else if (IS(TWO_BUT_FIRST))
        FOURS(FOURS_TWO_BUT_FIRST);
    else if (IS(ONE))
        FOURS(FOURS_ONE);
    else
        __builtin_unreachable();
}

/* Fours that lie alike in all rows: value 0 of the first one in row 0 and row 0 of the taps, its weights, its first
 * output; steps to the next four, and to the next row of taps and of outputs. */
typedef struct {
    const axis_t *rows;
    const float *x, *w;
    float *y;
    uint32_t count, y_column, y_row, w_h;
} fours_t;

static __attribute__((noinline)) uint32_t fours(const conv_t *v, const fours_t *f, const taps_t kind, uint32_t turn) {
    const uint32_t cores = hal_core_count(), each = v->m >> 2, channels = v->n * v->g * each, y_m = v->y_m;
    const uint32_t goes_on = sums_go_on(v), next = FOURS_KINDS < 1 << TWO ? 1 : f->y_column;
    const int32_t x_row = f->rows->move * (int32_t)v->x_h, x_h = f->rows->apart * (int32_t)v->x_h;
    uint32_t channel = turn, row = 0, column = 0;
    for (;; channel += cores) {
        while (channel >= channels && row < f->rows->count) {
            channel -= channels;
            if (++column == f->count) column = 0, row++;
        }
        if (row == f->rows->count) return channel;
        const run_t run = run_at(f->rows, row);
        uint32_t g = 0, n = 0, m = channel;
        if (v->n * v->g > 1) {
            g = each > 1 ? m / each : m, m -= g * each;
            while (g >= v->g) g -= v->g, n++;
        }
        m *= 4;
        const float *x = f->x + n * v->x_n + g * v->x_g + (int32_t)row * x_row + (int32_t)run.tap * x_h;
        x += (kind == MOVING ? 8 : 4) * column;
        const float *w = f->w + g * v->w_g + m * v->w_m + run.tap * f->w_h;
        const float *const bias = bias_of(v, g, m);
        float *y = f->y + n * v->y_n + g * v->y_g + m * y_m + row * f->y_row + 4 * next * column;
        uint32_t fresh = v->single || v->first;
        for (uint32_t left = v->c; left > 0; fresh = 0) {
            const uint32_t count = hal_min(left, v->together);
            float c[4][4], sums[4][4], *at = y;
            if (SELDOM(goes_on)) {
                for (uint32_t k = 0; k < 4; k++) {
                    UNROLL for (uint32_t p = 0; p < 4; p++) sums[k][PLACE(p)] = y[k * y_m + p * next];
                }
            }
            /* Channels are the inner loop where there is but one tap. */
            const int alone = ((FOURS_KINDS) & 1 << ONE) && kind == ONE && run.taps == 1;
            add_fours(v, kind, alone ? 1 : count, alone ? count : run.taps, x, alone ? (int32_t)v->x_c : x_h, w,
                      alone ? (int32_t)v->w_c : (int32_t)f->w_h, goes_on ? sums[0] : 0, c);
            left -= count, x += count * v->x_c, w += count * v->w_c;
            UNROLL for (uint32_t k = 0; k < 4; k++, at += y_m) {
                if (!fresh) {
                    UNROLL for (uint32_t p = 0; p < 4; p++) c[k][PLACE(p)] += at[p * next];
                }
                if (bias && left == 0) {
                    UNROLL for (uint32_t p = 0; p < 4; p++) c[k][p] += bias[k];
                }
                UNROLL for (uint32_t p = 0; p < 4; p++) at[p * next] = c[k][PLACE(p)];
            }
        }
        if (has_epilogue(v)) {
            for (uint32_t k = 0; k < 4; k++) epilogue_row(v, y + k * y_m, 4, next);
        }
    }
}

/* A plane of whole fours, of which at most the first and the last column lack a tap, one each. */
static uint32_t plane_fours(const conv_t *v, const axis_t *rows, const axis_t *columns, uint32_t turn) {
    const uint32_t taps = columns->taps, before = columns->low > 0 ? 4 : 0;
    const uint32_t end = columns->high < columns->count ? columns->count - 4 : columns->count;
    const float *const x = v->x + rows->at * (int32_t)v->x_h + columns->at + PLACE(0);
    float *const y = v->y + rows->first * v->y_h + columns->first;
    fours_t f = {
        .rows = rows, .x = x, .w = v->w + rows->tap * v->w_h + columns->tap, .y = y, .count = 1,
        .y_column = columns->step, .y_row = rows->step * v->y_h, .w_h = rows->tap_step * v->w_h,
    };
    const uint32_t move = (uint32_t)columns->move;
    if (before > 0) turn = fours(v, &f, move == 2 ? MOVING_BUT_FIRST : CONV_APART > 0 ? THREE_BUT_FIRST : THREE_BUT_LAST, turn);
    f.x = x + before * move, f.y = y + before * columns->step, f.count = (end - before) >> 2;
    if (f.count > 0) turn = fours(v, &f, taps == 2 ? TWO : taps == 1 ? ONE : move == 2 ? MOVING : THREE, turn);
    f.x = x + end, f.y = y + end * columns->step, f.count = 1;
    if (end < columns->count)
        turn = fours(v, &f, taps == 2 ? TWO_BUT_FIRST : CONV_APART > 0 ? THREE_BUT_LAST : THREE_BUT_FIRST, turn);
    return turn;
}

#endif
