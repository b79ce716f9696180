/* Sums of products of many outputs side by side. A lane is an output with a sum of its own, in its own order, so the bits are
 * those of one output after the other. Lanes share the first factor, and their second factors lie next to each other. */
#ifndef LANES_H
#define LANES_H

#include "share_f32.h"

#include <stdint.h>
#include <string.h>

#define LANES 8u        /* of a vector */
#define WIDTH 16u       /* outputs in the lanes of two vectors: packed factors come by so many */
#define SPOTS 4u        /* first factors that meet the same second ones */
#define PACKED 1024u    /* packed factors of an output, at most */
#define COLUMNS 64u     /* spots of a row whose sums are written together */
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 8")

typedef float lanes_t __attribute__((vector_size(32)));

static ALWAYS_INLINE lanes_t lanes_at(const float *from) {
    lanes_t lanes;
    memcpy(&lanes, from, sizeof(lanes));
    return lanes;
}

/* Pieces begin..end of a unit: cores share units of as many pieces each, and what is done once per unit is done by each
 * core that has a piece of it. */
typedef struct {
    uint32_t unit, begin, end;
} strip_t;

/* The strip of a share that begins at piece `at` of all units; the next begins after its end. */
static inline strip_t strip_at(uint32_t at, uint32_t end, uint32_t pieces) {
    const uint32_t unit = at / pieces, begin = at - unit * pieces;
    return (strip_t){unit, begin, hal_min(pieces, begin + (end - at))};
}

/* How many parts of `each` elements, or less for the last, there are. */
static inline uint32_t parts_of(uint32_t size, uint32_t each) { return (size + each - 1) / each; }

/* With the processor's instruction where it has one, by fmaf lane by lane where not. */
static ALWAYS_INLINE lanes_t lanes_fma(float x, lanes_t y, lanes_t sum) {
    lanes_t lanes;
    for (uint32_t i = 0; i < LANES; i++) lanes[i] = __builtin_fmaf(x, y[i], sum[i]);
    return lanes;
}

/* A loop of a sum, with the steps of both factors in elements. */
typedef struct {
    uint32_t count;
    int32_t x, y;
} loop_t;

/* The sums from zero of `spots` times `vectors` vectors over three loops; x of the next spot is `apart` elements on. */
static ALWAYS_INLINE void lanes_sums(uint32_t spots, uint32_t vectors, const float *x, int32_t apart, const float *y,
                                     loop_t outer, loop_t row, loop_t column, float sums[][WIDTH], uint32_t pitch) {
    lanes_t total[SPOTS][WIDTH / LANES];
    UNROLLED for (uint32_t s = 0; s < spots; s++)
        UNROLLED for (uint32_t v = 0; v < vectors; v++) total[s][v] = (lanes_t){0};
    for (uint32_t i = 0; i < outer.count; i++)
        for (uint32_t j = 0; j < row.count; j++) {
            const float *x_at = x + (int32_t)i * outer.x + (int32_t)j * row.x;
            const float *y_at = y + (int32_t)i * outer.y + (int32_t)j * row.y;
            for (uint32_t k = 0; k < column.count; k++, x_at += column.x, y_at += column.y) {
                lanes_t factors[WIDTH / LANES];
                UNROLLED for (uint32_t v = 0; v < vectors; v++) factors[v] = lanes_at(y_at + v * LANES);
                UNROLLED for (uint32_t s = 0; s < spots; s++)
                    UNROLLED for (uint32_t v = 0; v < vectors; v++)
                        total[s][v] = lanes_fma(x_at[(int32_t)s * apart], factors[v], total[s][v]);
            }
        }
    UNROLLED for (uint32_t s = 0; s < spots; s++)
        UNROLLED for (uint32_t v = 0; v < vectors; v++) memcpy(&sums[s * pitch][v * LANES], &total[s][v], sizeof(lanes_t));
}

/* The same with one output per spot, whose second factors need no packing. */
static ALWAYS_INLINE void spot_sums(uint32_t spots, const float *x, int32_t apart, const float *y, loop_t outer, loop_t row,
                                    loop_t column, float sums[][WIDTH], uint32_t pitch) {
    float total[SPOTS] = {0};
    for (uint32_t i = 0; i < outer.count; i++)
        for (uint32_t j = 0; j < row.count; j++) {
            const float *x_at = x + (int32_t)i * outer.x + (int32_t)j * row.x;
            const float *y_at = y + (int32_t)i * outer.y + (int32_t)j * row.y;
            for (uint32_t k = 0; k < column.count; k++, x_at += column.x, y_at += column.y)
                UNROLLED for (uint32_t s = 0; s < spots; s++)
                    total[s] = __builtin_fmaf(x_at[(int32_t)s * apart], *y_at, total[s]);
        }
    for (uint32_t s = 0; s < spots; s++) sums[s * pitch][0] = total[s];
}

/* Those sums for one spot or all of them, and as many vectors as `lanes` outputs need; one output is not packed.
 * `pitch` is the number of rows in `sums` from a spot to the next. */
static inline void block_sums(uint32_t spots, uint32_t lanes, const float *x, int32_t apart, const float *y, loop_t outer,
                              loop_t row, loop_t column, float sums[][WIDTH], uint32_t pitch) {
    if (row.count == 1 && column.count == 1) { /* the longest loop is the innermost */
        column = outer;
        outer = (loop_t){1, 0, 0};
    }
    if (lanes == 1 && spots == 1) spot_sums(1, x, apart, y, outer, row, column, sums, pitch);
    else if (lanes == 1) spot_sums(SPOTS, x, apart, y, outer, row, column, sums, pitch);
    else if (lanes <= LANES && spots == 1) lanes_sums(1, 1, x, apart, y, outer, row, column, sums, pitch);
    else if (lanes <= LANES) lanes_sums(SPOTS, 1, x, apart, y, outer, row, column, sums, pitch);
    else if (spots == 1) lanes_sums(1, 2, x, apart, y, outer, row, column, sums, pitch);
    else lanes_sums(SPOTS, 2, x, apart, y, outer, row, column, sums, pitch);
}

/* The sums from zero of one spot where each lane has a first factor of its own as well, packed like the second ones. */
static inline void pair_sums(const float *x, const float *y, loop_t row, loop_t column, float sums[][WIDTH]) {
    lanes_t low = {0}, high = {0};
    for (uint32_t j = 0; j < row.count; j++) {
        const float *x_at = x + (int32_t)j * row.x, *y_at = y + (int32_t)j * row.y;
        for (uint32_t k = 0; k < column.count; k++, x_at += column.x, y_at += column.y) {
            const lanes_t x_low = lanes_at(x_at), x_high = lanes_at(x_at + LANES);
            const lanes_t y_low = lanes_at(y_at), y_high = lanes_at(y_at + LANES);
            for (uint32_t i = 0; i < LANES; i++) low[i] = __builtin_fmaf(x_low[i], y_low[i], low[i]);
            for (uint32_t i = 0; i < LANES; i++) high[i] = __builtin_fmaf(x_high[i], y_high[i], high[i]);
        }
    }
    memcpy(sums[0], &low, sizeof(low));
    memcpy(sums[0] + LANES, &high, sizeof(high));
}

/* Packs the factors of some outputs, `apart` elements from one output to the next, each in `rows` rows of `count` neighbours;
 * unused lanes get zeros. */
static inline void lanes_pack(float *packed, const float *from, uint32_t lanes, uint32_t apart, uint32_t rows,
                              int32_t row_stride, uint32_t count) {
    if (lanes < WIDTH) memset(packed, 0, sizeof(float) * WIDTH * rows * count);
    for (uint32_t lane = 0; lane < lanes; lane++) {
        float *to = packed + lane;
        for (uint32_t i = 0; i < rows; i++) {
            const float *row = from + lane * apart + (int32_t)i * row_stride;
            for (uint32_t j = 0; j < count; j++, to += WIDTH) *to = row[j];
        }
    }
}

#endif
