/* A convolution or its dX whatever its windows are: sums in blocks of outputs, over rectangles of the plane. */
#ifndef CONV_H
#define CONV_H

#include "conv_sums.h"

/* s[m][p] += the sum over `count` channels, rows and `taps` columns of taps; `x_w` and `w_w` lie between columns. */
INLINE void add_taps(const conv_t *v, const rectangle_t *r, uint32_t count, const uint32_t M, const uint32_t P,
                     const float *x[4], const float *w[4], float s[4][4], const uint32_t taps, const int32_t x_w,
                     const int32_t w_w) {
    const int32_t x_h = r->x_h, w_h = (int32_t)r->w_h;
    const int32_t x_c = (int32_t)v->x_c - (int32_t)r->h * x_h, w_c = (int32_t)v->w_c - (int32_t)r->h * w_h;
    for (; count > 0; count--) {
        for (uint32_t a = r->h; a > 0; a--) {
            UNROLL for (uint32_t b = 0; b < taps; b++) {
                float values[4];
                UNROLL for (uint32_t p = 0; p < P; p++) values[p] = x[p][(int32_t)b * x_w];
                UNROLL for (uint32_t m = 0; m < M; m++) {
                    const float weight = w[m][(int32_t)b * w_w];
                    UNROLL for (uint32_t p = 0; p < P; p++) s[m][p] = __builtin_fmaf(values[p], weight, s[m][p]);
                }
            }
            UNROLL for (uint32_t p = 0; p < P; p++) x[p] += x_h;
            UNROLL for (uint32_t m = 0; m < M; m++) w[m] += w_h;
        }
        UNROLL for (uint32_t p = 0; p < P; p++) x[p] += x_c;
        UNROLL for (uint32_t m = 0; m < M; m++) w[m] += w_c;
    }
}

/* Four channels by four outputs with three taps in a row: as add_taps, with a load or step in every other place. */
#define THEN_LOAD(now, next_x, next_w)                                                                                \
    MAC(00, 0, 0) FLW("fa3", "a7", now) MAC(10, 1, 0) MAC(20, 2, 0) MAC(30, 3, 0) FLW("fa0", "t4", next_x)            \
    MAC(01, 0, 1) MAC(11, 1, 1) MAC(21, 2, 1) MAC(31, 3, 1) FLW("fa1", "t5", next_x)                                  \
    MAC(02, 0, 2) MAC(12, 1, 2) MAC(22, 2, 2) MAC(32, 3, 2) FLW("fa2", "t6", next_x)                                  \
    MAC(03, 0, 3) FLW("ft0", "t0", next_w) MAC(13, 1, 3) FLW("ft1", "t1", next_w)                                     \
    MAC(23, 2, 3) FLW("ft2", "t2", next_w) MAC(33, 3, 3) FLW("ft3", "t3", next_w)
#define THEN_STEP(now)                                                                                                \
    MAC(00, 0, 0) FLW("fa3", "a7", now) MAC(10, 1, 0) ADD("a7", "%[x_h]") MAC(20, 2, 0) ADD("t4", "%[x_h]")           \
    MAC(30, 3, 0) ADD("t5", "%[x_h]") MAC(01, 0, 1) ADD("t6", "%[x_h]") MAC(11, 1, 1) ADD("t0", "%[w_h]")             \
    MAC(21, 2, 1) ADD("t1", "%[w_h]") MAC(31, 3, 1) ADD("t2", "%[w_h]") MAC(02, 0, 2) ADD("t3", "%[w_h]")             \
    MAC(12, 1, 2) MAC(22, 2, 2) MAC(32, 3, 2) COLUMN(3)
INLINE void three_taps(const conv_t *v, const rectangle_t *r, uint32_t count, const float *const x[4], const float *w,
                       float c[4][4]) {
    float sums[4][4];
    UNROLL for (uint32_t m = 0; m < 4; m++) {
        UNROLL for (uint32_t p = 0; p < 4; p++) sums[m][p] = c[m][p];
    }
    const int32_t x_h = 4 * r->x_h, w_h = 4 * (int32_t)r->w_h, h = (int32_t)r->h;
    __asm__ volatile(
        FLW("%[c00]", "%[sums]", 0) FLW("%[c01]", "%[sums]", 4) FLW("%[c02]", "%[sums]", 8) FLW("%[c03]", "%[sums]", 12)
        FLW("%[c10]", "%[sums]", 16) FLW("%[c11]", "%[sums]", 20) FLW("%[c12]", "%[sums]", 24)
        FLW("%[c13]", "%[sums]", 28) FLW("%[c20]", "%[sums]", 32) FLW("%[c21]", "%[sums]", 36)
        FLW("%[c22]", "%[sums]", 40) FLW("%[c23]", "%[sums]", 44) FLW("%[c30]", "%[sums]", 48)
        FLW("%[c31]", "%[sums]", 52) FLW("%[c32]", "%[sums]", 56) FLW("%[c33]", "%[sums]", 60)
        "mv t0, %[w]\n add t1, t0, %[w_m]\n add t2, t1, %[w_m]\n add t3, t2, %[w_m]\n"
        "lw t4, 0(%[x])\n lw t5, 4(%[x])\n lw t6, 8(%[x])\n lw a7, 12(%[x])\n"
        LOOP_OUTER("%[channels]", 89)
        LOOP("%[rows]", 80)
        FLW("ft0", "t0", 0) FLW("fa0", "t4", 0) FLW("ft1", "t1", 0) FLW("ft2", "t2", 0) FLW("ft3", "t3", 0)
        FLW("fa1", "t5", 0) FLW("fa2", "t6", 0)
        THEN_LOAD(0, TAP_1, 4) THEN_LOAD(TAP_1, TAP_2, 8) THEN_STEP(TAP_2)
        LOOP_END(80)
        ADD("t0", "%[w_c]") ADD("t1", "%[w_c]") ADD("t2", "%[w_c]") ADD("t3", "%[w_c]")
        ADD("t4", "%[x_c]") ADD("t5", "%[x_c]") ADD("t6", "%[x_c]") ADD("a7", "%[x_c]")
        LOOP_OUTER_END(89)
        : SUMS_OUT(c)
        : [sums] "r"(sums), [x] "r"(x), [w] "r"(w), [w_m] "r"(4 * v->w_m), [x_h] "r"(x_h),
          [w_h] "r"(w_h), [x_c] "r"(4 * (int32_t)v->x_c - h * x_h), [w_c] "r"(4 * (int32_t)v->w_c - h * w_h),
          [rows] "r"(h), [channels] "r"(count)
        : "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a7", CLOBBERS);
}

/* s[m][0] += the sum over channels of the one tap. */
static inline void four_by_one(const conv_t *v, uint32_t count, const float *x, const float *w0, float s[4][4]) {
    const float *w1 = w0 + v->w_m, *w2 = w1 + v->w_m, *w3 = w2 + v->w_m;
    __asm__ volatile(LOOP("%[channels]", 14)
                     FLW("fa0", "%[x]", 0) FLW("ft0", "%[w0]", 0) FLW("ft1", "%[w1]", 0) FMA("%[s0]", "ft0", "fa0")
                     FLW("ft2", "%[w2]", 0) FMA("%[s1]", "ft1", "fa0") FLW("ft3", "%[w3]", 0)
                     FMA("%[s2]", "ft2", "fa0") ADD("%[x]", "%[x_c]") FMA("%[s3]", "ft3", "fa0")
                     ADD("%[w0]", "%[w_c]") ADD("%[w1]", "%[w_c]") ADD("%[w2]", "%[w_c]") ADD("%[w3]", "%[w_c]")
                     LOOP_END(14)
                     : [s0] "+&f"(s[0][0]), [s1] "+&f"(s[1][0]), [s2] "+&f"(s[2][0]), [s3] "+&f"(s[3][0]),
                       [x] "+&r"(x), [w0] "+&r"(w0), [w1] "+&r"(w1), [w2] "+&r"(w2), [w3] "+&r"(w3)
                     : [x_c] "r"(4 * v->x_c), [w_c] "r"(4 * v->w_c), [channels] "r"(count)
                     : CLOBBERS);
}

/* The same for M by P and any taps. */
INLINE void any_taps(const conv_t *v, const rectangle_t *r, uint32_t count, const uint32_t M, const uint32_t P,
                     const float *x[4], const float *weights, float s[4][4]) {
    const int usual = r->x_w == CONV_APART;
    const float *w[4];
    UNROLL for (uint32_t m = 0; m < M; m++) w[m] = weights + m * v->w_m;
    if (usual && r->w_w == 1 && r->w == 3)
        add_taps(v, r, count, M, P, x, w, s, 3, CONV_APART, 1);
    else if (r->w == 1 && r->h == 1 && M == 4 && P == 1)
        four_by_one(v, count, x[0], weights, s);
    else if (r->w == 1)
        add_taps(v, r, count, M, P, x, w, s, 1, 0, 0);
    else if (usual && r->w_w == 1 && r->w == 2)
        add_taps(v, r, count, M, P, x, w, s, 2, CONV_APART, 1);
    else if (usual && r->w_w == 2 && r->w == 2)
        add_taps(v, r, count, M, P, x, w, s, 2, CONV_APART, 2);
    else if (usual && r->w_w == 1 && r->w == 4)
        add_taps(v, r, count, M, P, x, w, s, 4, CONV_APART, 1);
    else
        add_taps(v, r, count, M, P, x, w, s, r->w, r->x_w, (int32_t)r->w_w);
}

/* M channels by P outputs. What several blocks or tiles need lies behind the code for one. */
INLINE void block(const conv_t *v, const rectangle_t *r, const uint32_t M, const uint32_t P, const float *from[4],
                  const float *weights, const float *bias, float *y[4]) {
    const uint32_t y_m = v->y_m, goes_on = v->single && !v->first;
    uint32_t fresh = v->single || v->first;
    for (uint32_t left = v->c;;) {
        const uint32_t count = hal_min(left, v->together);
        const float *x[4];
        float s[4][4];
        UNROLL for (uint32_t p = 0; p < P; p++) x[p] = from[p];
        UNROLL for (uint32_t m = 0; m < M; m++) {
            UNROLL for (uint32_t p = 0; p < P; p++) s[m][p] = SELDOM(goes_on) ? y[p][m * y_m] : 0.0f;
        }
        if (M == 4 && P == 4 && r->x_w == CONV_APART && r->w_w == 1 && r->w == 3 && r->h > 0)
            three_taps(v, r, count, x, weights, s);
        else
            any_taps(v, r, count, M, P, x, weights, s);
        if (SELDOM(!fresh)) {
            UNROLL for (uint32_t m = 0; m < M; m++) {
                UNROLL for (uint32_t p = 0; p < P; p++) s[m][p] += y[p][m * y_m];
            }
        }
        left -= count;
        const float *const last_bias = SELDOM(left > 0) ? 0 : bias;
        UNROLL for (uint32_t m = 0; m < M; m++) {
            UNROLL for (uint32_t p = 0; p < P; p++) y[p][m * y_m] = last_bias ? s[m][p] + last_bias[m] : s[m][p];
        }
        if (!SELDOM(left > 0)) return;
        UNROLL for (uint32_t p = 0; p < P; p++) from[p] += count * v->x_c;
        weights += count * v->w_c, fresh = 0;
    }
}

/* What the first output of a rectangle has in the channels of one block. */
typedef struct {
    const float *x, *w, *b;
    float *y;
} place_t;

/* Block `index` of all images' and groups' blocks of M channels, of which a group has `each` from channel m on. */
INLINE place_t place_of(const conv_t *v, const rectangle_t *r, uint32_t each, uint32_t m, const uint32_t M,
                        uint32_t index) {
    uint32_t g = 0, n = 0;
    if (v->n * v->g > 1) {
        g = each > 1 ? index / each : index;
        index -= g * each;
        while (g >= v->g) g -= v->g, n++;
    }
    m += M * index;
    place_t to = {r->x + n * v->x_n + g * v->x_g, r->weights + g * v->w_g + m * v->w_m, 0,
                  r->y + n * v->y_n + g * v->y_g + m * v->y_m};
    if (v->b) to.b = v->b + g * v->b_g + m;
    return to;
}

/* All blocks of channels m .. m + M * blocks - 1 of a group and of outputs from .. from + P * count - 1 of a rectangle.
 * `turn` is the block at which this core's turn comes next. */
INLINE uint32_t blocks(const conv_t *v, const rectangle_t *r, const uint32_t M, const uint32_t P, uint32_t m,
                       uint32_t each, uint32_t from, uint32_t count, uint32_t turn) {
    const uint32_t cores = hal_core_count(), channels = v->n * v->g * each;
    uint32_t channel = turn, row = 0, column = from, left = count;
    for (;; channel += cores) {
        while (channel >= channels && left > 0) channel -= channels, column += P, left--;
        if (left == 0) return channel;
        while (column >= r->columns) column -= r->columns, row++;
        const place_t to = place_of(v, r, each, m, M, channel);
        const float *x[4];
        float *y[4];
        uint32_t i = row, j = column;
        UNROLL for (uint32_t p = 0; p < P; p++) {
            x[p] = to.x + (int32_t)i * r->x_row + (int32_t)j * r->x_column;
            y[p] = to.y + i * r->y_row + j * r->y_column;
            if (++j == r->columns) j = 0, i++;
        }
        block(v, r, M, P, x, to.w, to.b, y);
        if (finishes(v)) finish_block(v, M, P, y);
    }
}

#define CONV_BLOCKS(M, P)                                                                                             \
    static __attribute__((noinline)) uint32_t blocks_##M##P(const conv_t *v, const rectangle_t *r, uint32_t m,        \
                                                            uint32_t each, uint32_t from, uint32_t count,             \
                                                            uint32_t turn) {                                          \
        return blocks(v, r, M, P, m, each, from, count, turn);                                                        \
    }
CONV_BLOCKS(4, 4)
CONV_BLOCKS(4, 1)
CONV_BLOCKS(1, 4)
CONV_BLOCKS(1, 1)

#include "conv_products.h"

/* Whether blocks of four outputs end earlier than four times as many of one, which cost a third more each. */
static inline int worth_fours(uint32_t fours) {
    const uint32_t cores = hal_core_count();
    return 3 * turns_of(fours, cores) <= turns_of(4 * fours, cores);
}

/* Outputs without a tap: zeros in a first part, else what they were. */
static __attribute__((noinline)) uint32_t zeros(const conv_t *v, const rectangle_t *r, uint32_t turn) {
    const uint32_t cores = hal_core_count(), channels = v->n * v->g * v->m;
    uint32_t channel = turn, row = 0;
    for (;; channel += cores) {
        while (channel >= channels && row < r->rows) channel -= channels, row++;
        if (row == r->rows) return channel;
        float *y = place_of(v, r, v->m, 0, 1, channel).y + row * r->y_row;
        __asm__ volatile(LOOP("%[count]", 3)
                         "sw zero, 0(%[y])\n" ADD("%[y]", "%[step]") "nop\n"
                         LOOP_END(3)
                         : [y] "+&r"(y) : [step] "r"(4 * r->y_column), [count] "r"(r->columns) : "memory");
    }
}

static __attribute__((noinline)) uint32_t rectangle(const conv_t *v, const rectangle_t *r, uint32_t turn) {
    const uint32_t outputs = r->rows * r->columns, each = v->m >> 2, images = v->n * v->g, rest = v->m & 3;
    uint32_t fours = r->columns >> 2;
    if (r->h * r->w == 0 && !v->b && (v->first || !finishes(v))) return v->first ? zeros(v, r, turn) : turn;
    if (each > 0 && r->h * r->w == 1 && fours && worth_fours(images * each * r->rows * fours)) {
        turn = products(v, r, turn);
        rectangle_t side = *r;
        side.columns = r->columns & 3, side.x += (int32_t)(4 * fours) * r->x_column, side.y += 4 * fours * r->y_column;
        if (side.columns > 0) turn = blocks_41(v, &side, 0, each, 0, side.rows * side.columns, turn);
    } else if (each > 0) {
        fours = outputs >> 2;
        const uint32_t singles = fours && worth_fours(images * each * fours) ? outputs & 3 : outputs;
        if (singles > 0) turn = blocks_41(v, r, 0, each, 0, singles, turn);
        if (singles < outputs) turn = blocks_44(v, r, 0, each, singles, fours, turn);
    }
    if (rest > 0) {
        fours = outputs >> 2;
        const uint32_t singles = fours && worth_fours(images * rest * fours) ? outputs & 3 : outputs;
        if (singles > 0) turn = blocks_11(v, r, 4 * each, rest, 0, singles, turn);
        if (singles < outputs) turn = blocks_14(v, r, 4 * each, rest, singles, fours, turn);
    }
    return turn;
}

#define LIST const void
#define EACH_RECTANGLE(v, r, list, turn) ((void)(list), rectangle(v, r, turn))
#include "conv_rectangles.h"

/* One tap without stride or padding, on whole rows: a plane is a row. */
static void one_row(const conv_t *v, uint32_t outputs) {
    const rectangle_t row = {.x = v->x, .weights = v->w, .y = v->y, .rows = 1, .columns = outputs, .h = 1, .w = 1,
                             .y_row = 0, .y_column = 1, .w_h = 0, .w_w = 0, .x_row = 0, .x_column = 1, .x_h = 0,
                             .x_w = 0};
    rectangle(v, &row, hal_core_id());
}

#endif
