/* Part of conv.h: three by three taps for four neighbours in a row, from the first column to the last.
 *
 * They share six values of a row of the operand. At the borders of a plane the first or the last of the four has no tap
 * outside; rows of outputs have as many rows of taps as lie inside. */
#ifndef CONV_FOURS_H
#define CONV_FOURS_H

/* Values 0 .. 5 of a row in fa0 .. fa5: tap b of output p meets value p + b. Where taps go back through the operand,
 * values and outputs are counted from their ends, so that it is the same. */
#define VALUE(k) FLW("fa" #k, "t4", 4 * CONV_APART * k)
#define EVEN(m, tap) FLW("ft" #m, "t" #m, 4 * tap)
#define ODD(m, tap, to) FLW("ft" #to, "t" #m, 4 * tap)
#define SUM(m, p, w, x) FMA("%[c" #m #p "]", "ft" #w, "fa" #x)

/* The first tap, with its loads; then loads for the second one in between. Without `OF_FIRST` output 0 has none. */
#define FIRST_TAP_ALL                                                                                                 \
    VALUE(0) EVEN(0, 0) VALUE(1) SUM(0, 0, 0, 0) EVEN(1, 0) SUM(0, 1, 0, 1) VALUE(2) SUM(1, 0, 1, 0) SUM(1, 1, 1, 1)  \
    EVEN(2, 0) SUM(0, 2, 0, 2) SUM(1, 2, 1, 2) VALUE(3) SUM(2, 0, 2, 0) SUM(2, 1, 2, 1) EVEN(3, 0) SUM(2, 2, 2, 2)    \
    SUM(0, 3, 0, 3) ODD(0, 1, 4) SUM(1, 3, 1, 3) SUM(2, 3, 2, 3) VALUE(4) SUM(3, 0, 3, 0) SUM(3, 1, 3, 1)             \
    ODD(1, 1, 5) SUM(3, 2, 3, 2) SUM(3, 3, 3, 3)
#define FIRST_TAP_REST                                                                                                \
    VALUE(1) EVEN(0, 0) VALUE(2) SUM(0, 1, 0, 1) EVEN(1, 0) SUM(0, 2, 0, 2) VALUE(3) SUM(1, 1, 1, 1) SUM(1, 2, 1, 2)  \
    EVEN(2, 0) SUM(0, 3, 0, 3) SUM(1, 3, 1, 3) EVEN(3, 0) SUM(2, 1, 2, 1) SUM(2, 2, 2, 2) ODD(0, 1, 4)                \
    SUM(2, 3, 2, 3) VALUE(4) SUM(3, 1, 3, 1) SUM(3, 2, 3, 2) ODD(1, 1, 5) SUM(3, 3, 3, 3)
#define SECOND_TAP(LAST_VALUE)                                                                                        \
    SUM(0, 0, 4, 1) ODD(2, 1, 6) SUM(0, 1, 4, 2) SUM(0, 2, 4, 3) ODD(3, 1, 7) SUM(0, 3, 4, 4) SUM(1, 0, 5, 1)         \
    EVEN(0, 2) SUM(1, 1, 5, 2) SUM(1, 2, 5, 3) EVEN(1, 2) SUM(1, 3, 5, 4) SUM(2, 0, 6, 1) LAST_VALUE                  \
    SUM(2, 1, 6, 2) SUM(2, 2, 6, 3) EVEN(2, 2) SUM(2, 3, 6, 4) SUM(3, 0, 7, 1) EVEN(3, 2) SUM(3, 1, 7, 2)             \
    SUM(3, 2, 7, 3) ADD("t4", "%[x_h]") SUM(3, 3, 7, 4)
#define THIRD_TAP_OF(m, step) SUM(m, 0, m, 2) SUM(m, 1, m, 3) step SUM(m, 2, m, 4)
#define THIRD_TAP_ALL                                                                                                 \
    THIRD_TAP_OF(0, ADD("t0", "%[w_h]")) SUM(0, 3, 0, 5) THIRD_TAP_OF(1, ADD("t1", "%[w_h]")) SUM(1, 3, 1, 5)         \
    THIRD_TAP_OF(2, ADD("t2", "%[w_h]")) SUM(2, 3, 2, 5) THIRD_TAP_OF(3, ADD("t3", "%[w_h]")) SUM(3, 3, 3, 5)
#define THIRD_TAP_REST                                                                                                \
    THIRD_TAP_OF(0, ADD("t0", "%[w_h]")) THIRD_TAP_OF(1, ADD("t1", "%[w_h]"))                                         \
    THIRD_TAP_OF(2, ADD("t2", "%[w_h]")) THIRD_TAP_OF(3, ADD("t3", "%[w_h]"))

#if CONV_APART == 1
#define FOUR_IN(c0, c1, c2, c3) ROW_IN(c0, c1, c2, c3)
#else
#define FOUR_IN(c0, c1, c2, c3) ROW_IN(c3, c2, c1, c0)
#endif

#define FOURS(n, outer, first, second, third)                                                                         \
    __asm__ volatile(                                                                                                 \
        "bnez %[sums], 3f\n"                                                                                          \
        ROW_ZERO(c00, c01, c02, c03) ROW_ZERO(c10, c11, c12, c13) ROW_ZERO(c20, c21, c22, c23)                        \
        ROW_ZERO(c30, c31, c32, c33)                                                                                  \
        "2: mv t0, %[w]\n add t1, t0, %[w_m]\n add t2, t1, %[w_m]\n add t3, t2, %[w_m]\n mv t4, %[x]\n"                  \
        LOOP_OUTER("%[channels]", outer) LOOP("%[rows]", n) first second third LOOP_END(n)                            \
        ADD("t0", "%[w_c]") ADD("t1", "%[w_c]") ADD("t2", "%[w_c]") ADD("t3", "%[w_c]") ADD("t4", "%[x_c]")           \
        LOOP_OUTER_END(outer)                                                                                         \
        ".subsection 1\n3: mv t0, %[sums]\n"                                                                          \
        FOUR_IN(c00, c01, c02, c03) ADD("t0", "%[y_m]") FOUR_IN(c10, c11, c12, c13) ADD("t0", "%[y_m]")               \
        FOUR_IN(c20, c21, c22, c23) ADD("t0", "%[y_m]") FOUR_IN(c30, c31, c32, c33) "j 2b\n.previous\n"               \
        : [c00] "=&f"(c[0][0]), [c01] "=&f"(c[0][1]), [c02] "=&f"(c[0][2]), [c03] "=&f"(c[0][3]),                     \
          [c10] "=&f"(c[1][0]), [c11] "=&f"(c[1][1]), [c12] "=&f"(c[1][2]), [c13] "=&f"(c[1][3]),                     \
          [c20] "=&f"(c[2][0]), [c21] "=&f"(c[2][1]), [c22] "=&f"(c[2][2]), [c23] "=&f"(c[2][3]),                     \
          [c30] "=&f"(c[3][0]), [c31] "=&f"(c[3][1]), [c32] "=&f"(c[3][2]), [c33] "=&f"(c[3][3])                      \
        : [sums] "r"(sums), [y_m] "r"(4 * v->y_m), [x] "r"(x), [w] "r"(w), [w_m] "r"(4 * v->w_m), [x_h] "r"(4 * x_h), [w_h] "r"(4 * w_h),                      \
          [x_c] "r"(4 * ((int32_t)v->x_c - (int32_t)taps * x_h)),                                                     \
          [w_c] "r"(4 * ((int32_t)v->w_c - (int32_t)taps * w_h)), [rows] "r"(taps), [channels] "r"(count)             \
        : "t0", "t1", "t2", "t3", "t4", "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fa0", "fa1", "fa2",  \
          "fa3", "fa4", "fa5", "memory")

/* c[m][p] = zero, or sums that lie like the result, + the sum over `count` channels and `taps` rows of taps; output 0 may lack its first tap, or 3 its last. */
INLINE void add_fours(const conv_t *v, const uint32_t lacks_first, const uint32_t lacks_last, uint32_t count,
                      uint32_t taps, const float *x, int32_t x_h, const float *w, const float *sums, float c[4][4]) {
    const int32_t w_h = (int32_t)v->w_h;
    if (lacks_first)
        FOURS(66, 72, FIRST_TAP_REST, SECOND_TAP(VALUE(5)), THIRD_TAP_ALL);
    else if (lacks_last)
        FOURS(66, 72, FIRST_TAP_ALL, SECOND_TAP(""), THIRD_TAP_REST);
    else
        FOURS(71, 77, FIRST_TAP_ALL, SECOND_TAP(VALUE(5)), THIRD_TAP_ALL);
}

/* Fours that lie alike in all rows: the first of them begins at `column`, and value 0 of its first taps at `x` in row 0
 * and row 0 of the taps. */
typedef struct {
    const axis_t *rows;
    const float *x;
    uint32_t column, count;
} fours_t;

INLINE uint32_t fours(const conv_t *v, const fours_t *f, const uint32_t lacks_first, const uint32_t lacks_last,
                      uint32_t turn) {
    const uint32_t cores = hal_core_count(), each = v->m >> 2, channels = v->n * v->g * each, y_m = v->y_m;
    const int32_t x_row = f->rows->move * (int32_t)v->x_h, x_h = f->rows->apart * (int32_t)v->x_h;
    const uint32_t goes_on = v->single && !v->first;
    uint32_t channel = turn, row = 0, column = 0;
    for (;; channel += cores) {
        while (channel >= channels && row < f->rows->count) {
            channel -= channels;
            if (++column == f->count) column = 0, row++;
        }
        if (row == f->rows->count) return channel;
        const run_t taps = run_at(f->rows, row);
        uint32_t g = 0, n = 0, m = channel;
        if (v->n * v->g > 1) {
            g = each > 1 ? m / each : m, m -= g * each;
            while (g >= v->g) g -= v->g, n++;
        }
        m *= 4;
        const float *x = f->x + n * v->x_n + g * v->x_g + (int32_t)row * x_row + (int32_t)taps.tap * x_h + 4 * column;
        const float *w = v->w + g * v->w_g + m * v->w_m + taps.tap * v->w_h;
        const float *const bias = v->b ? v->b + g * v->b_g + m : 0;
        float *y = v->y + n * v->y_n + g * v->y_g + m * y_m + row * v->y_h + f->column + 4 * column;
        uint32_t fresh = v->single || v->first;
        for (uint32_t left = v->c; left > 0; fresh = 0) {
            const uint32_t count = hal_min(left, v->together);
            float c[4][4], *at = y;
            add_fours(v, lacks_first, lacks_last, count, taps.taps, x, x_h, w, goes_on ? y : 0, c);
            left -= count, x += count * v->x_c, w += count * v->w_c;
            UNROLL for (uint32_t k = 0; k < 4; k++, at += y_m) {
                float *const to = c[k];
                if (!fresh) {
                    UNROLL for (uint32_t p = 0; p < 4; p++) to[CONV_APART > 0 ? p : 3 - p] += at[p];
                }
                if (bias && left == 0) {
                    UNROLL for (uint32_t p = 0; p < 4; p++) to[p] += bias[k];
                }
                UNROLL for (uint32_t p = 0; p < 4; p++) at[p] = to[CONV_APART > 0 ? p : 3 - p];
            }
        }
        if (finishes(v)) {
            for (uint32_t k = 0; k < 4; k++) finish_line(v, y + k * y_m, 4, 1);
        }
    }
}

static __attribute__((noinline)) uint32_t fours_inside(const conv_t *v, const fours_t *f, uint32_t turn) {
    return fours(v, f, 0, 0, turn);
}

static __attribute__((noinline)) uint32_t fours_at_first(const conv_t *v, const fours_t *f, uint32_t turn) {
    return fours(v, f, 1, 0, turn);
}

static __attribute__((noinline)) uint32_t fours_at_last(const conv_t *v, const fours_t *f, uint32_t turn) {
    return fours(v, f, 0, 1, turn);
}

/* Whether a plane is made of fours: whole ones, of which at most the first and the last column lack a tap, one each. */
static inline int fits_fours(const conv_t *v, const axis_t *rows, const axis_t *columns) {
    const uint32_t count = columns->count;
    if ((v->m & 3) || (count & 3) || columns->taps != 3 || columns->move != 1 || columns->apart != CONV_APART ||
        columns->step * columns->tap_step != 1 || rows->step * rows->tap_step != 1 || columns->low > 1 ||
        columns->high + 1 < count || (count == 4 && columns->high - columns->low == 2) ||
        !lies_inside(columns, 0, 1) || !lies_inside(columns, count - 1, 1))
        return 0;
    for (uint32_t i = 0; i < rows->count;) {
        const run_t run = run_at(rows, i);
        if (run.taps == 0) return 0;
        i += run.count;
    }
    return 1;
}

static __attribute__((noinline)) uint32_t plane_fours(const conv_t *v, const axis_t *rows, const axis_t *columns,
                                                      uint32_t turn) {
    const uint32_t count = columns->count, first = columns->low > 0 ? 4 : 0, end = columns->high < count ? count - 4 : count;
    const float *const x = v->x + rows->at * (int32_t)v->x_h + columns->at + (CONV_APART > 0 ? 0 : 3);
    fours_t f = {rows, x, 0, 1};
    if (first > 0) turn = CONV_APART > 0 ? fours_at_first(v, &f, turn) : fours_at_last(v, &f, turn);
    f.x = x + first, f.column = first, f.count = (end - first) >> 2;
    if (f.count > 0) turn = fours_inside(v, &f, turn);
    f.x = x + end, f.column = end, f.count = 1;
    if (end < count) turn = CONV_APART > 0 ? fours_at_last(v, &f, turn) : fours_at_first(v, &f, turn);
    return turn;
}

#endif
