/* Y = round(ratio * (X * W + bias)) of one group, in blocks of four places by four filters. A table has the address of each tap
 * at four places, or of each row of taps where these lie together; taps in padding lie where X's zero is. Where channels are no
 * multiple of four (CONV_COPIES), the table has the addresses of copies of the windows. */
#ifndef CONV_BLOCKS_I8_H
#define CONV_BLOCKS_I8_H

#include "block_i8.h"
#include "conv_i8.h"
#include "hal.h"
#include "share_f32.h"
#include "taps_f32.h"

#define MOST_CHANNELS 512
#define MOST_TAPS 25
#define MOST_COPIED 200

/* A place of Y: its column, its window's first row and column, and where both begin; `x` may lie in padding. */
typedef struct {
    uint32_t ow, oh;
    int32_t top, left;
    uintptr_t x;
    int8_t *y;
} place_t;

/* Steps between windows, from the last of a line to the first of the next, and from an image to the next. */
typedef struct {
    uint32_t ow, oh, x_cols;        /* columns and rows of Y, columns of X */
    uint32_t rows, columns;         /* of X, those where a window may begin that lies inside */
    uint32_t x_next, x_line, x_image, y_line, y_image;
} steps_t;

static inline void next_place(const conv_i8_args_t *p, const steps_t *step, place_t *at) {
    at->left += (int32_t)p->sw, at->x += step->x_next, at->y += p->y_w;
    if (++at->ow < step->ow) return;
    at->ow = 0, at->left = p->left, at->top += (int32_t)p->sh, at->x += step->x_line, at->y += step->y_line;
    if (++at->oh < step->oh) return;
    at->oh = 0, at->top = p->top, at->x += step->x_image, at->y += step->y_image;
}

#if CONV_COPIES
/* `count` bytes of a value, or from X. */
static inline int8_t *filled(int8_t *to, int32_t value, uint32_t count) {
    while (count-- > 0) *to++ = (int8_t)value;
    return to;
}

static inline int8_t *copied(int8_t *to, uintptr_t x, uint32_t count) {
    uint32_t byte;
    if (count > 0)
        __asm__ volatile(LOOP("%[count]", 3) LBU_NEXT("%[byte]", "%[x]", 1) "nop\n" SB_NEXT("%[byte]", "%[to]", 1) LOOP_END(3)
                         : [to] "+r"(to), [x] "+r"(x), [byte] "=&r"(byte) : [count] "r"(count) : "memory");
    return to;
}

/* The window at a place of an X of so many columns, its rows one behind the other. */
static inline void copy(const conv_i8_args_t *p, const place_t *at, uint32_t x_cols, int8_t *to) {
    const share_t columns = taps_inside(at->left, p->kw, p->dw, x_cols);
    const uint32_t c = p->c, near = p->dw == 1 ? columns.end - columns.begin : 1, step = near * p->dw * p->x_w;
    uintptr_t row = at->x + columns.begin * p->dw * p->x_w;
    uint32_t top = (uint32_t)at->top;
    for (uint32_t a = p->kh; a > 0; a--, top += p->dh, row += p->dh * p->x_h) {
        if (top >= p->x_rows) {
            to = filled(to, p->x_zero, p->kw * c);
            continue;
        }
        uintptr_t x = row;
        to = filled(to, p->x_zero, columns.begin * c);
        for (uint32_t b = columns.begin; b < columns.end; b += near, x += step) to = copied(to, x, near * c);
        to = filled(to, p->x_zero, (p->kw - columns.end) * c);
    }
}
#else
/* The addresses of all taps of a place, in every fourth entry. */
static inline void taps_at(const conv_i8_args_t *p, const place_t *at, uint32_t columns, const int8_t *zeros, const int8_t **table) {
    const int8_t **const end = table + PLACES * p->kh * p->kw;
    const uint32_t each = PLACES * p->kw, dw = p->dw, step = dw * p->x_w, line = p->dh * p->x_h;
    uintptr_t row = at->x;
    for (uint32_t top = (uint32_t)at->top; table < end; top += p->dh, row += line) {
        const int8_t **const last = table + each;
        if (top >= p->x_rows) {
            for (; table < last; table += PLACES) *table = zeros;
            continue;
        }
        uintptr_t x = row;
        for (uint32_t left = (uint32_t)at->left; table < last; left += dw, x += step, table += PLACES)
            *table = left < columns ? (const int8_t *)x : zeros;
    }
}

/* The addresses of all rows of taps of four places, `step` bytes apart. */
static inline void rows_at(const conv_i8_args_t *p, uintptr_t x, uint32_t step, const int8_t **table) {
    const uint32_t line = p->dh * p->x_h, step_2 = 2 * step, step_3 = step + step_2;
    for (uint32_t a = p->kh; a > 0; a--, x += line, table += PLACES) {
        table[0] = (const int8_t *)x, table[1] = (const int8_t *)(x + step);
        table[2] = (const int8_t *)(x + step_2), table[3] = (const int8_t *)(x + step_3);
    }
}
#endif

/* The results of blocks of filters at four places. */
static inline void run(const conv_i8_args_t *p, block_i8_t *block, uint32_t m, uint32_t count) {
    block->w = p->w + m * p->w_m, block->b = p->b + m, block->ratio = p->ratio + m, block->blocks = count;
    block_i8(block);
}

static inline void blocks(const conv_i8_args_t *p) {
#if CONV_COPIES
    uint32_t copies[PLACES][(MOST_COPIED + 3) / 4];
    const int8_t *table[PLACES];
#else
    uint32_t zeros[MOST_CHANNELS / 4];
    const int8_t *table[MOST_TAPS * PLACES];
#endif
    steps_t step;
    step.ow = p->ow, step.oh = p->oh, step.x_cols = p->x_cols;
    const uint32_t high = (p->kh - 1) * p->dh, wide = (p->kw - 1) * p->dw;
    step.rows = p->x_rows > high ? p->x_rows - high : 0, step.columns = p->x_cols > wide ? p->x_cols - wide : 0;
    step.x_next = p->sw * p->x_w;
    step.x_line = p->sh * p->x_h - p->ow * step.x_next, step.y_line = p->y_h - p->ow * p->y_w;
    step.x_image = p->x_n - p->oh * p->sh * p->x_h, step.y_image = p->y_n - p->oh * p->y_h;
    const uint32_t single = p->kh * p->kw * p->sh * p->sw == 1 && p->x_rows >= p->oh && p->x_cols >= p->ow;
    if (single && ((uint32_t)p->top | (uint32_t)p->left | step.x_line | step.y_line) == 0) { /* one long line */
        step.x_cols *= p->x_rows, step.columns *= step.rows, step.ow *= p->oh, step.oh = 1;
    }
    const uint32_t places = p->n * p->oh * p->ow, filters = (p->m + FILTERS - 1) / FILTERS;
    const share_t share = share_of((places + PLACES - 1) / PLACES * filters);
    if (share.begin == share.end) return;
    block_i8_t block;
    block.w_m = p->w_m, block.low = (int32_t)p->low, block.high = (int32_t)p->high, block.table = table;
    block.zero = (uint8_t)p->zero * 0x01010101u;
#if CONV_COPIES
    const uint32_t taps = p->kh * p->kw * p->c;
    block.words = (taps + 3) / 4, block.runs = 1, block.w_back = 4 * block.words - taps;
    /* The last word of a filter also reads up to three bytes behind it, which are multiplied by zeros. */
    for (uint32_t j = 0; j < PLACES; j++) copies[j][block.words - 1] = 0, table[j] = (const int8_t *)copies[j];
#else
    const uint32_t far = (PLACES - 1) * p->sw;
    block.w_back = 0;
    if (p->c <= MOST_CHANNELS && step.rows * step.columns < step.oh * step.ow * p->sh * p->sw)
        for (uint32_t i = 0; i < p->c / 4; i++) zeros[i] = (uint8_t)p->x_zero * 0x01010101u;
#endif
    uint32_t first = share.begin / filters, m = share.begin - first * filters;
    first *= PLACES;
    place_t at;
    uint32_t line = first / step.ow, n = line / step.oh;
    at.ow = first - line * step.ow, at.oh = line - n * step.oh;
    at.top = p->top + (int32_t)(at.oh * p->sh), at.left = p->left + (int32_t)(at.ow * p->sw);
    at.x = (uintptr_t)p->x + n * p->x_n + (uint32_t)at.top * p->x_h + (uint32_t)at.left * p->x_w;
    at.y = p->y + n * p->y_n + at.oh * p->y_h + at.ow * p->y_w;
    for (uint32_t left = share.end - share.begin, taken; left > 0; left -= taken, m = 0, first += PLACES) {
#if CONV_COPIES
        for (uint32_t j = 0; j < PLACES; j++) {
            block.y[j] = at.y + m * FILTERS;
            copy(p, &at, step.x_cols, (int8_t *)copies[j]);
            if (first + j + 1 < places) next_place(p, &step, &at); /* the last place fills a block that has fewer */
        }
#else
        if (at.ow + PLACES <= step.ow && (uint32_t)at.top < step.rows && (uint32_t)at.left + far < step.columns &&
            at.left >= 0 && p->dw == 1) {
            int8_t *y = at.y + m * FILTERS;
            for (uint32_t j = 0; j < PLACES; j++, y += p->y_w) block.y[j] = y;
            block.runs = p->kh, block.words = p->kw * p->c / 4;
            rows_at(p, at.x, step.x_next, table);
            at.ow += PLACES - 1, at.left += (int32_t)far, at.x += 3 * step.x_next, at.y += 3 * p->y_w;
            next_place(p, &step, &at);
        } else {
            block.runs = p->kh * p->kw, block.words = p->c / 4;
            for (uint32_t j = 0; j < PLACES; j++) {
                block.y[j] = at.y + m * FILTERS;
                taps_at(p, &at, step.x_cols, (const int8_t *)zeros, table + j);
                if (first + j + 1 < places) next_place(p, &step, &at);
            }
        }
#endif
        taken = hal_min(filters - m, left);
        const uint32_t rest = FILTERS * (m + taken) > p->m; /* the last block begins early enough to be a whole one */
        if (taken > rest) run(p, &block, m * FILTERS, taken - rest);
        if (rest) {
            const uint32_t early = FILTERS * filters - p->m;
            for (uint32_t j = 0; j < PLACES; j++) block.y[j] -= early;
            run(p, &block, p->m - FILTERS, 1);
        }
    }
}

#endif
