/* Depthwise windows of three by three neighbours without stride along a row, by themselves: what conv.h needs for any window
 * is code, and where planes are small the fetch of code is what takes time. A plane is cut into strips of up to four columns,
 * whose outputs share what they load; the sums of a row of a strip stay in registers. */
#ifndef CONV_STRIPS_H
#define CONV_STRIPS_H

#include "hal.h"
#include "pulp.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 4")
#define OFTEN(condition) __builtin_expect(!!(condition), 1)
#define NOT_OFTEN(condition) __builtin_expect(!!(condition), 0)

enum { LONG_STRIP = 12 }; /* rows for which the quicker code is worth its fetch */

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
        if (NOT_OFTEN(biased)) {
            UNROLL for (uint32_t p = 0; p < P; p++) s[p] += bias;
        }
        if (NOT_OFTEN(relu)) {
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

/* Four columns and rows with all three rows of taps, as text for a hardware loop. Outputs and what they read are numbered
 * in the order in which a row's taps go, from the right where CONV_APART is -1: output p reads x[p], x[p + 1], x[p + 2]. The
 * first of an output's products has no sum yet (START). At a plane's edges x[0] or x[5] is not there. */
#if CONV_APART == 1
#define STRIP_AT(k) 4 * (k)
#define STRIP_TO(p) 4 * (p)
#else
#define STRIP_AT(k) 20 - 4 * (k)
#define STRIP_TO(p) 12 - 4 * (p)
#endif
#define START(p, x, w) "fmadd.s %[s" #p "], ft" #x ", %[w" #w "], %[zero]\n"
#define GO_ON(p, x, w) FMA("%[s" #p "]", "ft" #x, "%[w" #w "]")
#define GET(k, x) FLW("ft" #k, "%[x" #x "]", STRIP_AT(k))
#define ROW_REST(a, x) GO_ON(1, 2, a##1) GO_ON(2, 3, a##1) GO_ON(3, 4, a##1) GO_ON(0, 2, a##2) GO_ON(1, 3, a##2) GO_ON(2, 4, a##2)
#define ROW_TAIL(FIRST, a, x) FIRST(1, 1, a##0) GET(3, x) FIRST(2, 2, a##0) GET(4, x) FIRST(3, 3, a##0)
#define ROW_MIDDLE(FIRST, a, x)                                                                                       \
    GET(0, x) GET(1, x) FIRST(0, 0, a##0) GET(2, x) ROW_TAIL(FIRST, a, x) GET(5, x) GO_ON(0, 1, a##1) ROW_REST(a, x)  \
    GO_ON(3, 5, a##2)
#define ROW_BEGIN(FIRST, a, x)                                                                                        \
    GET(1, x) GET(2, x) ROW_TAIL(FIRST, a, x) GET(5, x) FIRST(0, 1, a##1) ROW_REST(a, x) GO_ON(3, 5, a##2)
#define ROW_END(FIRST, a, x)                                                                                          \
    GET(0, x) GET(1, x) FIRST(0, 0, a##0) GET(2, x) ROW_TAIL(FIRST, a, x) GO_ON(0, 1, a##1) ROW_REST(a, x)
#define ROW_BOTH(FIRST, a, x) GET(1, x) GET(2, x) ROW_TAIL(FIRST, a, x) FIRST(0, 1, a##1) ROW_REST(a, x)
#define THREE_ROWS(ROW)                                                                                               \
    ROW(START, 0, 0) ADD("%[x0]", "%[x_row]") ROW(GO_ON, 1, 1) ADD("%[x1]", "%[x_row]") ROW(GO_ON, 2, 2)              \
    ADD("%[x2]", "%[x_row]")
#define PUT(p) FSW("%[s" #p "]", "%[y]", STRIP_TO(p))
#define PUT_FOUR PUT(0) PUT(1) PUT(2) PUT(3) ADD("%[y]", "%[y_row]")
#define PUT_GATED(p, bits, mask)                                                                                      \
    "flt.s " mask ", %[zero], ft" #p "\n fmv.x.w " bits ", %[s" #p "]\n neg " mask ", " mask "\n and " bits ", "      \
    bits ", " mask "\n sw " bits ", " PULP_TEXT(STRIP_TO(p)) "(%[y])\n"
#define GET_GATE(p) FLW("ft" #p, "%[gate]", STRIP_TO(p))
#define PUT_FOUR_GATED                                                                                                \
    GET_GATE(0) GET_GATE(1) GET_GATE(2) GET_GATE(3) ADD("%[gate]", "%[gate_row]") PUT_GATED(0, "t0", "t1")            \
    PUT_GATED(1, "t2", "t3") PUT_GATED(2, "t0", "t1") PUT_GATED(3, "t2", "t3") ADD("%[y]", "%[y_row]")
#define STRIP_LOOP(body, n)                                                                                           \
    __asm__ volatile(LOOP("%[rows]", n) body LOOP_END(n)                                                              \
                     : [x0] "+&r"(x0), [x1] "+&r"(x1), [x2] "+&r"(x2), [y] "+&r"(y), [gate] "+&r"(gate),              \
                       [s0] "=&f"(s[0]), [s1] "=&f"(s[1]), [s2] "=&f"(s[2]), [s3] "=&f"(s[3])                         \
                     : [w00] "f"(w[0][0]), [w01] "f"(w[0][1]), [w02] "f"(w[0][2]), [w10] "f"(w[1][0]),                \
                       [w11] "f"(w[1][1]), [w12] "f"(w[1][2]), [w20] "f"(w[2][0]), [w21] "f"(w[2][1]),                \
                       [w22] "f"(w[2][2]), [zero] "f"(0.0f), [x_row] "r"(4 * x_row), [y_row] "r"(4 * v->y_h),         \
                       [gate_row] "r"(4 * v->gate_h), [rows] "r"(rows)                                                \
                     : "t0", "t1", "t2", "t3", "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "memory")
#if CONV_APART == 1
#define STRIP(ROW, n) STRIP_LOOP(THREE_ROWS(ROW) PUT_FOUR, 3 * n + 8)
#else
#define STRIP(ROW, n)                                                                                                 \
    if (gate)                                                                                                         \
        STRIP_LOOP(THREE_ROWS(ROW) PUT_FOUR_GATED, 3 * n + 29);                                                       \
    else                                                                                                              \
        STRIP_LOOP(THREE_ROWS(ROW) PUT_FOUR, 3 * n + 8)
#endif

/* The rows of four columns, of which each has three rows of taps. */
static __attribute__((noinline)) void inside_strip(const strips_t *v, const strip_t *t) {
    const int32_t x_h = (int32_t)v->x_h, x_row = v->move * x_h;
    const float *x0 = t->x, *x1 = x0 + v->apart * x_h, *x2 = x1 + v->apart * x_h, *gate = t->gate;
    const uint32_t begins = CONV_APART == 1 ? t->before : t->behind, ends = CONV_APART == 1 ? t->behind : t->before;
    const uint32_t rows = t->rows;
    float *y = t->y, s[4], w[3][3];
    UNROLL for (uint32_t a = 0; a < 3; a++) {
        UNROLL for (uint32_t b = 0; b < 3; b++) w[a][b] = t->w[a * v->w_h + b];
    }
    if (begins && ends) {
        STRIP(ROW_MIDDLE, 18);
    } else if (ends) {
        STRIP(ROW_BEGIN, 16);
    } else if (begins) {
        STRIP(ROW_END, 16);
    } else {
        STRIP(ROW_BOTH, 14);
    }
}

/* Four columns of many rows: `low` rows from the first on lie at the border, and those from `high` on. */
static __attribute__((noinline)) void long_strip(const strips_t *v, const strip_t *t, uint32_t low, uint32_t high) {
    strip_t part = *t;
    const int32_t x_row = v->move * (int32_t)v->x_h;
    const uint32_t ends[3] = {low, high, t->rows};
    uint32_t from = 0;
    for (uint32_t i = 0; i < 3; from = ends[i++]) {
        part.x = t->x + (int32_t)from * x_row, part.y = t->y + from * v->y_h, part.at = t->at + (int32_t)from * v->move;
        if (t->gate) part.gate = t->gate + from * v->gate_h;
        part.rows = ends[i] - from;
        if (i == 1)
            inside_strip(v, &part);
        else if (part.rows > 0)
            strip_4(v, &part);
    }
}

/* Whether only the first and the last column lack taps, one each. */
INLINE int makes_strips(uint32_t columns, int32_t left, uint32_t x_columns) {
    return left >= -1 && left + (int32_t)columns < (int32_t)x_columns;
}

/* Cores take turns at channels; where these are few, at halves or quarters of the rows of one. */
static __attribute__((noinline)) void strips(const strips_t *v) {
    const uint32_t cores = hal_core_count(), planes = v->images * v->groups, columns = v->columns;
    const int32_t width = (int32_t)v->x_columns, low = v->left;
    uint32_t parts = 1, piece = v->rows, first = 0, end = v->rows;
    while (parts < 4 && planes * parts < 4 * cores && planes * parts != cores * turns_of(planes * parts, cores)) parts *= 2;
    if (parts > 1) piece = (piece + parts - 1) >> (parts >> 1); /* 2 or 4 parts */
    while (first < end && v->top + (int32_t)first * v->move + (v->apart < 0 ? 2 * v->apart : 0) < 0) first++;
    while (end > first && v->top + (int32_t)(end - 1) * v->move + (v->apart > 0 ? 2 * v->apart : 0) >= (int32_t)v->x_rows) end--;
    for (uint32_t turn = hal_core_id(); turn < planes * parts; turn += cores) {
        uint32_t g = turn, part = 0, n = 0;
        while (g >= planes) g -= planes, part++;
        while (g >= v->groups) g -= v->groups, n++;
        const uint32_t row = part * piece, last = hal_min(row + piece, v->rows);
        if (row >= last) continue;
        const uint32_t from = hal_min(first > row ? first - row : 0, last - row);
        const uint32_t to = end > row + from ? hal_min(end, last) - row : from;
        strip_t t;
        t.at = v->top + (int32_t)row * v->move, t.rows = last - row, t.w = v->w + g * v->w_g;
        t.bias = v->b ? v->b[g * v->b_g] : 0.0f, t.gate = 0;
        const uint32_t y_at = n * v->y_n + g * v->y_g + row * v->y_h;
        const uint32_t gate_at = n * v->gate_n + g * v->gate_g + row * v->gate_h;
        const float *x = v->x + n * v->x_n + g * v->x_g + t.at * (int32_t)v->x_h + low;
        const int is_long = to - from >= LONG_STRIP && !v->b && !v->relu;
        for (uint32_t j = 0; j < columns; j += 4) {
            const uint32_t left = columns - j;
            if (left < 4 && left > 1 && columns > 4 && is_long) j = columns - 4; /* twice is as quick as two by themselves */
            t.x = x + j, t.y = v->y + y_at + j;
            if (v->gate) t.gate = v->gate + gate_at + j;
            t.before = j > 0 || low >= 0;
            t.behind = columns - j > 4 || low + (int32_t)columns + 1 < width;
            if (columns - j >= 4) {
                if (is_long)
                    long_strip(v, &t, from, to);
                else
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
