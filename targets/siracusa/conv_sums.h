/* What a convolution and its dX share: sums over channels, kernel rows and kernel columns for blocks of outputs.
 *
 * Outputs with the same taps inside the operand form rectangles, so that padding costs nothing within one. A block is
 * four channels by four outputs of a rectangle, or what is left of either; its sums stay in registers, and between
 * blocks of products_f32.h the total waits in the result. Cores take turns at blocks, over all rectangles.
 *
 * Before it is included, CONV_APART says how many columns of the operand lie between two taps in the common case. A file
 * for calls alone in which no sum goes on from one that waits defines CONV_GOES_ON as 0. */
#ifndef CONV_SUMS_H
#define CONV_SUMS_H

#include "gemm_block.h"
#include "hal.h"
#include "hints.h"
#include "products_f32.h"
#include "pulp.h"

#if CONV_APART == 1
#define TAP_1 4
#define TAP_2 8
#else
#define TAP_1 -4
#define TAP_2 -8
#endif

/* The whole sum: lengths, and steps of the operand (x), weights, bias (where it is to be added) and result (y); and
 * what is to be done where it is complete: Relu, or to keep it where a gate is above zero. Who makes one of these
 * structures says every member: the compiler clears a structure with gaps by a call, byte for byte. */
typedef struct {
    const float *x, *w;
    float *y;
    uint32_t n, g, m, c, first, single, together; /* channels that make a block */
    uint32_t x_n, x_g, x_c, x_h, w_g, w_m, w_c, w_h;
    union {
        struct {
            uint32_t y_n, y_g, y_m, y_h;
        };
        uint32_t y_step[4];
    };
#if CONV_APART > 0
    const float *b;
    uint32_t b_g, relu;
#else
    const float *gate;
    union {
        struct {
            uint32_t gate_n, gate_g, gate_m, gate_h;
        };
        uint32_t gate_step[4];
    };
    uint32_t gate_alike; /* whether these are the steps of the result */
#endif
} conv_t;

/* Outputs `first`, first + step, .. of one axis, whose taps 0, 1, .. lie at `at`, at + apart, .. in the operand, and by
 * `move` further for each next output; they are the weights `tap`, tap + tap_step, .. */
typedef struct {
    uint32_t first, step, count, taps, tap, tap_step, length;
    int32_t at, move, apart;
    uint32_t low, high; /* outputs all of whose taps lie inside */
} axis_t;

/* Outputs `from` to from + count - 1 of an axis, with the same taps inside. */
typedef struct {
    uint32_t from, count, tap, taps;
} run_t;

/* A rectangle of outputs with the same h x w taps: where the first one and its first tap lie, and steps to the next row and
 * column of outputs. */
typedef struct {
    const float *x, *weights;
    float *y;
    uint32_t rows, columns, h, w, y_row, y_column;
    int32_t x_row, x_column, x_step[3], w_step[3]; /* to the next column of taps, to the next row and channel */
} rectangle_t;

#ifndef CONV_GOES_ON
#define CONV_GOES_ON 1
#endif

/* Whether sums go on from what waits in Y, and whether they are added to it. */
INLINE uint32_t sums_go_on(const conv_t *v) {
    return CONV_GOES_ON && v->single && !v->first;
}

INLINE uint32_t sums_add(const conv_t *v) {
    return !(CONV_GOES_ON && v->single) && !v->first;
}

#include "conv_epilogue.h"

/* The bias of a channel, where it is to be added; a dX has none. */
INLINE const float *bias_of(const conv_t *v, uint32_t g, uint32_t m) {
#if CONV_APART > 0
    if (v->b) return v->b + g * v->b_g + m;
#endif
    (void)v, (void)g, (void)m;
    return 0;
}

INLINE int lies_inside(const axis_t *axis, uint32_t output, uint32_t tap) {
    const int32_t at = axis->at + (int32_t)output * axis->move + (int32_t)tap * axis->apart;
    return at >= 0 && at < (int32_t)axis->length;
}

static inline int meets_all(const axis_t *axis, uint32_t output) {
    return lies_inside(axis, output, 0) && lies_inside(axis, output, axis->taps - 1);
}

static inline void find_inside(axis_t *axis) {
    uint32_t low = 0, high = axis->count;
    if (axis->taps > 0) {
        while (low < high && !meets_all(axis, low)) low++;
        while (high > low && !meets_all(axis, high - 1)) high--;
    }
    axis->low = low, axis->high = high;
}

/* The run that begins at an output: all those with every tap, or one at the border. */
static __attribute__((unused, noinline)) run_t run_at(const axis_t *axis, uint32_t from) {
    run_t run = {from, 1, 0, axis->taps};
    if (from >= axis->low && from < axis->high) {
        run.count = axis->high - from;
        return run;
    }
    while (run.taps > 0 && !lies_inside(axis, from, run.tap)) run.tap++, run.taps--;
    while (run.taps > 0 && !lies_inside(axis, from, run.tap + run.taps - 1)) run.taps--;
    return run;
}

#endif
