/* Depthwise windows of three by three neighbours without stride along a row, over planes of four columns or more, where no
 * bias and no Relu follow. Strips of four columns go down a plane in one hardware loop, and one column by itself where it
 * is left over.
 *
 * Where planes are small the fetch of code takes most of the time, so rows at the border take the same loop: a row of taps
 * outside of the operand reads zeros, and its weights are -0. Such products are -0, which changes no sum, or the first of
 * one, which begins with +0. */
#ifndef CONV_PLANES_H
#define CONV_PLANES_H

#include "conv_ends.h"
#include "hal.h"
#include "pulp.h"
#include "scheduled_taps.h"

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
#define WEIGHT_00 "ft6"
#define WEIGHT_01 "ft7"
#define WEIGHT_02 "ft8"
#define WEIGHT_10 "ft9"
#define WEIGHT_11 "ft10"
#define WEIGHT_12 "ft11"
#define WEIGHT_20 "fa5"
#define WEIGHT_21 "fa6"
#define WEIGHT_22 "fa7"
#define WEIGHTS(a)                                                                                                    \
    FLW(WEIGHT_##a##0, "%[w" #a "]", 0) FLW(WEIGHT_##a##1, "%[w" #a "]", 4) FLW(WEIGHT_##a##2, "%[w" #a "]", 8)
#define START(p, x, w) "fmadd.s fa" #p ", ft" #x ", " WEIGHT_##w ", fa4\n"
#define GO_ON(p, x, w) FMA("fa" #p, "ft" #x, WEIGHT_##w)
#define GET(k, x) FLW("ft" #k, "%[x" #x "]", STRIP_AT(k))
#define THREE_ROWS(ROW)                                                                                               \
    ROW(START, 0, 0) ADD("%[x0]", "%[x_row]") ROW(GO_ON, 1, 1) ADD("%[x1]", "%[x_row]") ROW(GO_ON, 2, 2)              \
    ADD("%[x2]", "%[x_row]")
#define PUT(p) FSW("fa" #p, "%[y]", STRIP_TO(p))
#define PUT_FOUR PUT(0) PUT(1) PUT(2) PUT(3) ADD("%[y]", "%[y_row]")
#define PUT_GATED(p, bits, mask)                                                                                      \
    "flt.s " mask ", fa4, ft" #p "\n fmv.x.w " bits ", fa" #p "\n neg " mask ", " mask "\n and " bits ", "            \
    bits ", " mask "\n sw " bits ", " PULP_TEXT(STRIP_TO(p)) "(%[y])\n"
#define GET_GATE(p) FLW("ft" #p, "%[gate]", STRIP_TO(p))
#define PUT_FOUR_GATED                                                                                                \
    GET_GATE(0) GET_GATE(1) GET_GATE(2) GET_GATE(3) ADD("%[gate]", "%[gate_row]") PUT_GATED(0, "t0", "t1")            \
    PUT_GATED(1, "t2", "t3") PUT_GATED(2, "t0", "t1") PUT_GATED(3, "t2", "t3") ADD("%[y]", "%[y_row]")

/* A column by itself, which has another one to its left; ROW_LESS has no tap to its right. */
#if CONV_APART == 1
#define GET_ONE(k, x) FLW("ft" #k, "%[x" #x "]", 4 * (k))
#define ROW_LESS ROW_ONE_END
#define ROW_LESS_LENGTH ROW_ONE_END_LENGTH
#else
#define GET_ONE(k, x) FLW("ft" #k, "%[x" #x "]", 8 - 4 * (k))
#define ROW_LESS ROW_ONE_BEGIN
#define ROW_LESS_LENGTH ROW_ONE_BEGIN_LENGTH
#endif
#define PUT_ONE FSW("fa0", "%[y]", 0) ADD("%[y]", "%[y_row]")
#define PUT_ONE_GATED                                                                                                 \
    FLW("ft0", "%[gate]", 0) ADD("%[gate]", "%[gate_row]")                                                            \
    "flt.s t1, fa4, ft0\n fmv.x.w t0, fa0\n neg t1, t1\n and t0, t0, t1\n sw t0, 0(%[y])\n" ADD("%[y]", "%[y_row]")

#define PLANE_LOOP(body, n)                                                                                           \
    __asm__ volatile(WEIGHTS(0) WEIGHTS(1) WEIGHTS(2)                                                                 \
                     "fmv.w.x fa4, zero\n" LOOP("%[rows]", n) body LOOP_END(n)                                        \
                     : [x0] "+&r"(x[0]), [x1] "+&r"(x[1]), [x2] "+&r"(x[2]), [y] "+&r"(y), [gate] "+&r"(gate)         \
                     : [w0] "r"(w[0]), [w1] "r"(w[1]), [w2] "r"(w[2]), [x_row] "r"(4 * x_row), [y_row] "r"(y_row),    \
                       [gate_row] "r"(gate_row), [rows] "r"(rows)                                                     \
                     : "t0", "t1", "t2", "t3", "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "ft8", "ft9",  \
                       "ft10", "ft11", "fa0", "fa1", "fa2", "fa3", "fa4", "fa5", "fa6", "fa7", "memory")
#if CONV_APART == 1
#define PLANE(ROW, PUT) PLANE_LOOP(THREE_ROWS(ROW) PUT, 3 * ROW##_LENGTH + 3 + PUT##_LENGTH)
#else
#define PLANE(ROW, PUT)                                                                                               \
    if (gate)                                                                                                         \
        PLANE_LOOP(THREE_ROWS(ROW) PUT##_GATED, 3 * ROW##_LENGTH + 3 + PUT##_GATED_LENGTH);                           \
    else                                                                                                              \
        PLANE_LOOP(THREE_ROWS(ROW) PUT, 3 * ROW##_LENGTH + 3 + PUT##_LENGTH)
#endif
#define PUT_FOUR_LENGTH 5
#define PUT_FOUR_GATED_LENGTH 26
#define PUT_ONE_LENGTH 2
#define PUT_ONE_GATED_LENGTH 8

/* Cores take turns at channels; where these are few, at halves or quarters of the rows of one. */
static inline void planes(const ends_t *p) {
    const uint32_t cores = hal_core_count(), count = p->n * p->g, all = p->SIZE(h), columns = p->SIZE(w);
    const int32_t x_h = (int32_t)p->IN(_h), length = (int32_t)p->IN(_rows), apart = CONV_APART * (int32_t)p->dh;
    const uint32_t y_row = 4 * p->OUT(_h);
#if CONV_APART == 1
    const int32_t move = (int32_t)p->sh, left = p->left, least = 0, most = 2 * apart;
    const uint32_t gate_row = 0;
#else
    const int32_t move = 1, left = p->left - 2, least = 2 * apart, most = 0;
    const uint32_t gate_row = 4 * p->gate_h;
#endif
    const int32_t x_row = move * x_h, x_next = apart * x_h;
    const float none = LITERAL_F32(-0.0f), nothing[9] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, none, none, none};
    uint32_t parts = 1, piece = all;
    while (parts < 4 && count * parts < 4 * cores && count * parts != cores * rounds_of(count * parts, cores)) parts *= 2;
    if (parts > 1) piece = (piece + parts - 1) >> (parts >> 1); /* 2 or 4 parts */
    for (uint32_t turn = hal_core_id(); turn < count * parts; turn += cores) {
        uint32_t g = turn, from = 0, n = 0;
        while (g >= count) g -= count, from += piece;
        while (g >= p->g) g -= p->g, n++;
        const uint32_t end = hal_min(from + piece, all);
        const float *const taps = p->w + g * p->w_g;
        const int32_t begin = p->top + (int32_t)from * move;
        for (uint32_t j = 0; j < columns;) {
            const uint32_t rest = columns - j, is_last = rest == 1 || rest == 4;
            const uint32_t before = j > 0 || left >= 0;
            const uint32_t behind = !is_last || left + (int32_t)columns + 1 < (int32_t)p->IN(_cols);
            const uint32_t begins = CONV_APART == 1 ? before : behind, ends = CONV_APART == 1 ? behind : before;
            const float *x_at = p->IN() + n * p->IN(_n) + g * p->IN(_g) + begin * x_h + left + (int32_t)j, *gate = 0;
            float *y = p->OUT() + n * p->OUT(_n) + g * p->OUT(_g) + from * p->OUT(_h) + j;
#if CONV_APART == -1
            if (p->gate) gate = p->gate + n * p->gate_n + g * p->gate_g + from * p->gate_h + j;
#endif
            int32_t at = begin;
            for (uint32_t row = from, rows = 1; row < end; row += rows, at += (int32_t)rows * move) {
                const float *x[3] = {x_at, x_at + x_next, x_at + 2 * x_next}, *w[3] = {taps, taps + 3, taps + 6};
                rows = 1;
                if (at + least >= 0 && at + most < length) {
                    if (move == 1) rows = hal_min(end - row, (uint32_t)(length - most - at));
                } else {
                    UNROLL for (int32_t a = 0; a < 3; a++) {
                        if ((uint32_t)(at + a * apart) >= (uint32_t)length) x[a] = nothing, w[a] = nothing + 6;
                    }
                }
                if (rest < 4) {
                    if (behind) {
                        PLANE(ROW_ONE, PUT_ONE);
                    } else {
                        PLANE(ROW_LESS, PUT_ONE);
                    }
                } else if (begins && ends) {
                    PLANE(ROW_MIDDLE, PUT_FOUR);
                } else if (ends) {
                    PLANE(ROW_BEGIN, PUT_FOUR);
                } else if (begins) {
                    PLANE(ROW_END, PUT_FOUR);
                } else {
                    PLANE(ROW_BOTH, PUT_FOUR);
                }
                x_at += (int32_t)rows * x_row;
            }
            j += rest == 7 ? 3 : rest < 4 ? 1 : 4; /* twice is quicker than three by themselves */
        }
    }
}

#endif
