/* Y = round(ratio * (X * W + bias)) for machines that multiply several numbers at once (dot_i8.h): two windows of X are copied, some
 * numbers at a time, as these machines take them, and meet two filters at once. The room for them does not depend on the
 * convolution. */
#ifndef CONV_COPIES_I8_H
#define CONV_COPIES_I8_H

#include "conv_i8.h"
#include "dot_i8.h"
#include "hal.h"
#include "requantize_i8.h"
#include "share_f32.h"

#if defined(DOT_PAIRS) || defined(DOT_VECTORS)
#define DOT_COPIES

#define WINDOWS 2
#define CHUNK 288 /* numbers of a window that are copied at once, a multiple of sixteen */
#define FILTERS 32 /* that meet them, an even number */

/* Where a window lies; `x` may be in padding. */
typedef struct {
    int32_t top, left;
    const int8_t *x;
    int8_t *y;
    uint32_t joined; /* whether a row's taps are inside of X and lie together */
} place_t;

static inline place_t place_of(const conv_i8_args_t *p, uint32_t i, uint32_t group) {
    const uint32_t ow = i % p->ow, line = i / p->ow, oh = line % p->oh, n = line / p->oh;
    const int32_t top = p->top + (int32_t)(oh * p->sh), left = p->left + (int32_t)(ow * p->sw);
    const int32_t bottom = top + (int32_t)((p->kh - 1) * p->dh), right = left + (int32_t)((p->kw - 1) * p->dw);
    const uint32_t inside = top >= 0 && left >= 0 && bottom < (int32_t)p->x_rows && right < (int32_t)p->x_cols;
    return (place_t){top, left, p->x + n * p->x_n + group * p->c, p->y + n * p->y_n + oh * p->y_h + ow * p->y_w,
                     inside && (p->kw == 1 || (p->dw == 1 && p->x_w == p->c))};
}

#ifdef DOT_VECTORS
#define APART (CHUNK / 4) /* words from window to window */

/* Copies `count` numbers of X, or of its zero where x is null, behind `done` ones. */
static inline void copy(const int8_t *x, int32_t zero, uint32_t done, uint32_t count, uint32_t *to) {
    int8_t *const y = (int8_t *)to + done;
    if (x)
        memcpy(y, x, count);
    else
        memset(y, zero, count);
}

/* The sum of the numbers that are copied. */
static int32_t total(const uint32_t *from, uint32_t count) {
    int32_t sum = 0;
    for (uint32_t i = 0; i < count; i++) sum += ((const int8_t *)from)[i];
    return sum;
}

/* Adds the products of `count` numbers of both windows with those of filters. */
static inline void products(const uint32_t *copies, const int8_t *w, uint32_t w_m, uint32_t filters, uint32_t count,
                            int32_t (*sums)[WINDOWS]) {
    const int8_t *const x = (const int8_t *)copies;
    for (uint32_t f = 0; f < filters; f += 2, w += 2 * w_m) /* the last of an odd number is computed twice */
        dot_vectors_i8(x, x + CHUNK, w, f + 1 < filters ? w + w_m : w, count, sums[f]);
}

/* The results of `filters` sums at both windows. */
static inline void results(int32_t (*sums)[WINDOWS], const float *ratio, uint32_t filters, range_i8_t range, int8_t *first,
                           int8_t *second) {
    results_of_vectors_i8(sums[0], ratio, filters, range.low, range.high, range.zero, first, second);
}
#else
#define APART 2

/* Where number i of the first window is, in halves of words. */
static inline uint32_t half_of(uint32_t i) {
    return 2 * (i & ~3u) + 2 * (i & 1) + (i >> 1 & 1);
}

/* Spreads `count` numbers of X, or of its zero where x is null, behind `done` ones. */
static inline void copy(const int8_t *x, int32_t zero, uint32_t done, uint32_t count, uint32_t *to) {
    int16_t *const half = (int16_t *)to;
    if (((done | count) & 3) == 0 && x)
        spread_i8(x, count / 4, to + done);
    else if (((done | count) & 3) == 0)
        spread_one_i8(zero, count / 4, to + done);
    else
        for (uint32_t i = done; i < done + count; i++) half[half_of(i)] = (int16_t)(x ? x[i - done] : zero);
}

/* The sum of the numbers that are spread. */
static int32_t total(const uint32_t *from, uint32_t count) {
    int32_t sum = 0;
    for (uint32_t i = 0; i < count; i++) sum += ((const int16_t *)from)[half_of(i)];
    return sum;
}

/* Adds the products of `count` numbers of both windows with those of filters. */
static inline void products(const uint32_t *copies, const int8_t *w, uint32_t w_m, uint32_t filters, uint32_t count,
                            int32_t (*sums)[WINDOWS]) {
    const uint32_t whole = count & ~3u;
    dots_i8_t dots;
    dots.spread = copies, dots.w = w, dots.w_m = w_m, dots.sums = sums[0];
    dots.sixteens = count / 16, dots.fours = count / 4 % 4, dots.pairs = filters / 2;
    if (dots.pairs > 0) dot_pairs_i8(0, 0, 0, 0, &dots);
    if (filters & 1) { /* the last of an odd number is computed twice */
        dots.w_m = 0, dots.pairs = 1;
        dot_pairs_i8(0, 0, 0, 0, &dots);
    }
    for (uint32_t f = 0; f < filters && whole < count; f++, w += w_m)
        for (uint32_t i = whole; i < count; i++) {
            const int16_t *const x = (const int16_t *)copies + half_of(i);
            sums[f][0] += w[i] * x[0], sums[f][1] += w[i] * x[4];
        }
}

/* The results of `filters` sums at both windows. */
static inline void results(int32_t (*sums)[WINDOWS], const float *ratio, uint32_t filters, range_i8_t range, int8_t *first,
                           int8_t *second) {
    if (is_all_i8(range)) {
        for (uint32_t f = 0; f < filters; f++)
            first[f] = saturated_i8(sums[f][0], ratio[f], range), second[f] = saturated_i8(sums[f][1], ratio[f], range);
    } else {
        for (uint32_t f = 0; f < filters; f++)
            first[f] = requantized_i8(sums[f][0], ratio[f], range), second[f] = requantized_i8(sums[f][1], ratio[f], range);
    }
}

#endif

/* Copies `count` numbers of a window from number `from` on. */
static void copy_window(const conv_i8_args_t *p, const place_t *at, uint32_t from, uint32_t count, uint32_t *to) {
    const uint32_t c = p->c, line = at->joined ? p->kw * c : c;
    uint32_t tap = from / line, rest = from - tap * line;
    for (uint32_t done = 0, run; done < count; done += run, rest = 0, tap++) {
        const uint32_t a = at->joined ? tap : tap / p->kw, b = at->joined ? 0 : tap - a * p->kw;
        const int32_t row = at->top + (int32_t)(a * p->dh), column = at->left + (int32_t)(b * p->dw);
        const uint32_t inside = (uint32_t)row < p->x_rows && (uint32_t)column < p->x_cols;
        run = hal_min(line - rest, count - done);
        copy(inside ? at->x + (uint32_t)row * p->x_h + (uint32_t)column * p->x_w + rest : 0, p->x_zero, done, run, to);
    }
}

static inline void conv_copies(const conv_i8_args_t *p) {
    const share_t share = share_of(p->n * p->oh * p->ow);
    const range_i8_t range = range_i8(p->low, p->high, p->zero);
    const uint32_t taps = p->kh * p->kw * p->c;
    uint32_t two[CHUNK]; /* two numbers each: those of both windows are twice as many */
    int32_t sums[FILTERS][WINDOWS];
    for (uint32_t i = share.begin; i < share.end; i += WINDOWS) {
        const uint32_t second = i + 1 < share.end ? i + 1 : i; /* the last of an odd number is computed twice */
        place_t at[WINDOWS];
        int32_t off[WINDOWS] = {0, 0}; /* what a zero of the filters adds to the sums */
        uint32_t whole = 0;            /* whether the windows of the group are spread, each as a whole */
        for (uint32_t m = 0, filters; m < p->m; m += filters) {
            const uint32_t group = (p->first + m) / p->per_group, rest = (group + 1) * p->per_group - p->first - m;
            filters = hal_min(FILTERS, hal_min(rest, p->m - m));
            if (m == 0 || rest == p->per_group) at[0] = place_of(p, i, group), at[1] = place_of(p, second, group), whole = 0;
            const int32_t *const b = p->b + m;
            for (uint32_t from = 0, count; from < taps; from += count) {
                count = hal_min(CHUNK, taps - from);
                for (uint32_t j = 0; j < WINDOWS && !whole; j++) {
                    copy_window(p, &at[j], from, count, two + APART * j);
                    if (p->w_zero != 0) off[j] = p->w_zero * total(two + APART * j, count);
                }
                for (uint32_t f = 0; f < filters && from == 0; f++) sums[f][0] = b[f] - off[0], sums[f][1] = b[f] - off[1];
                for (uint32_t f = 0; f < filters && from != 0 && p->w_zero != 0; f++) sums[f][0] -= off[0], sums[f][1] -= off[1];
                products(two, p->w + m * p->w_m + from, p->w_m, filters, count, sums);
            }
            whole = taps <= CHUNK;
            results(sums, p->ratio + m, filters, range, at[0].y + m, at[1].y + m);
        }
    }
}

#endif
#endif
