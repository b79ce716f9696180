/* Y = round(ratio * (X * W + bias)) for machines that multiply several numbers at once (dot_i8.h): some windows of X are copied, some
 * numbers at a time, as these machines take them, and meet one filter or two at once. The room for them does not depend on the
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

#ifdef DOT_VECTORS
#define WINDOWS 2
#define CHUNK 288 /* numbers of a window that are copied at once, a multiple of sixteen */
#define FILTERS 32 /* that meet them, an even number */
#define COPY_WORDS CHUNK /* for both windows twice as many as there may be */
#else
#define WINDOWS 4
#define CHUNK 144
#define FILTERS 32
#define COPY_WORDS (2 * CHUNK) /* two bytes a number */
#endif

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

/* Begins the sums of both windows with the filters' biases. */
static inline void begin(const int32_t *b, uint32_t filters, int32_t (*sums)[WINDOWS]) {
    for (uint32_t f = 0; f < filters; f++) sums[f][0] = sums[f][1] = b[f];
}

/* The sum of the numbers that are copied. */
static int32_t total(const uint32_t *from, uint32_t count) {
    int32_t sum = 0;
    for (uint32_t i = 0; i < count; i++) sum += ((const int8_t *)from)[i];
    return sum;
}

/* Adds the products of `count` numbers of the first windows with those of filters. */
static inline void products(const uint32_t *copies, uint32_t windows, const int8_t *w, uint32_t w_m, uint32_t filters, uint32_t count,
                            int32_t (*sums)[WINDOWS]) {
    const int8_t *const x = (const int8_t *)copies;
    (void)windows;
    for (uint32_t f = 0; f < filters; f += 2, w += 2 * w_m) /* the last of an odd number is computed twice */
        dot_vectors_i8(x, x + CHUNK, w, f + 1 < filters ? w + w_m : w, count, sums[f]);
}

/* The results of `filters` sums at the first windows. */
static inline void results(int32_t (*sums)[WINDOWS], uint32_t windows, const float *ratio, uint32_t filters, range_i8_t range,
                           int8_t *const *y) {
    results_of_vectors_i8(sums[0], ratio, filters, range.low, range.high, range.zero, windows, y);
}
#else
#define APART 2

/* Where number i of the first window is, in halves of words. */
static inline uint32_t half_of(uint32_t i) {
    return 4 * (i & ~3u) + 2 * (i & 1) + (i >> 1 & 1);
}

/* Spreads `count` numbers of X, or of its zero where x is null, behind `done` ones. */
static inline void copy(const int8_t *x, int32_t zero, uint32_t done, uint32_t count, uint32_t *to) {
    int16_t *const half = (int16_t *)to;
    if (((done | count) & 3) == 0 && x)
        spread_i8(x, count / 4, to + 2 * done);
    else if (((done | count) & 3) == 0)
        spread_one_i8(zero, count / 4, to + 2 * done);
    else
        for (uint32_t i = done; i < done + count; i++) half[half_of(i)] = (int16_t)(x ? x[i - done] : zero);
}

/* Begins the sums of all windows with the filters' biases. */
static inline void begin(const int32_t *b, uint32_t filters, int32_t (*sums)[WINDOWS]) {
    fourfold_i32(b, filters, sums[0]);
}

/* The sum of the numbers that are spread. */
static int32_t total(const uint32_t *from, uint32_t count) {
    int32_t sum = 0;
    for (uint32_t i = 0; i < count; i++) sum += ((const int16_t *)from)[half_of(i)];
    return sum;
}

/* Adds the products of `count` numbers of the first windows with those of filters. */
static inline void products(const uint32_t *copies, uint32_t windows, const int8_t *w, uint32_t w_m, uint32_t filters, uint32_t count,
                            int32_t (*sums)[WINDOWS]) {
    const uint32_t whole = count & ~3u;
    dots_i8_t dots;
    dots.spread = copies, dots.sums = sums[0], dots.w = w, dots.w_m = w_m;
    dots.sixteens = count / 16, dots.fours = count / 4 % 4;
    if (whole == 0) {
        /* none of four */
    } else if (windows > 2) {
        dots.w_m -= whole, dots.end = sums[filters];
        dot_fours_i8(0, 0, 0, 0, &dots);
    } else {
        dots.end = sums[filters & ~1u];
        if (filters > 1) dot_pairs_i8(0, 0, 0, 0, &dots);
        if (filters & 1) { /* the last of an odd number is computed twice */
            dots.w_m = 0, dots.end = sums[filters + 1];
            dot_pairs_i8(0, 0, 0, 0, &dots);
        }
    }
    for (uint32_t f = 0; f < filters && whole < count; f++, w += w_m)
        for (uint32_t i = whole; i < count; i++) {
            const int16_t *const x = (const int16_t *)copies + half_of(i);
            for (uint32_t j = 0; j < windows; j++) sums[f][j] += w[i] * x[4 * j];
        }
}

/* The results of `filters` sums at the first windows. */
static inline void results(int32_t (*sums)[WINDOWS], uint32_t windows, const float *ratio, uint32_t filters, range_i8_t range,
                           int8_t *const *y) {
#ifdef DOT_RESULTS
    if (windows == WINDOWS && is_all_i8(range)) {
        saturated_fours_i8(sums[0], ratio, filters, range.zero, y);
        return;
    }
#endif
    for (uint32_t j = 0; j < windows; j++) {
        int8_t *const line = y[j];
        for (uint32_t f = 0; f < filters; f++) line[f] = requantized_i8(sums[f][j], ratio[f], range);
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
    uint32_t copies[COPY_WORDS];
    int32_t sums[FILTERS + 1][WINDOWS]; /* the last one is for the second of an odd number's last pair */
    for (uint32_t i = share.begin, windows; i < share.end; i += windows) {
        windows = hal_min(WINDOWS, share.end - i);
        place_t at[WINDOWS];
        int8_t *y[WINDOWS];
        int32_t off[WINDOWS]; /* what a zero of the filters adds to the sums */
        uint32_t whole = 0;   /* whether the windows of the group are copied, each as a whole */
        for (uint32_t m = 0, filters; m < p->m; m += filters) {
            const uint32_t group = (p->first + m) / p->per_group, rest = (group + 1) * p->per_group - p->first - m;
            filters = hal_min(FILTERS, hal_min(rest, p->m - m));
            if (m == 0 || rest == p->per_group) {
                for (uint32_t j = 0; j < windows; j++) at[j] = place_of(p, i + j, group);
                whole = 0;
            }
            begin(p->b + m, filters, sums);
            for (uint32_t from = 0, count; from < taps; from += count) {
                count = hal_min(CHUNK, taps - from);
                for (uint32_t j = 0; j < windows && !whole; j++) {
                    copy_window(p, &at[j], from, count, copies + APART * j);
                    if (p->w_zero != 0) off[j] = p->w_zero * total(copies + APART * j, count);
                }
                products(copies, windows, p->w + m * p->w_m + from, p->w_m, filters, count, sums);
                for (uint32_t f = 0; f < filters && p->w_zero != 0; f++)
                    for (uint32_t j = 0; j < windows; j++) sums[f][j] -= off[j];
            }
            whole = taps <= CHUNK;
            for (uint32_t j = 0; j < windows; j++) y[j] = at[j].y + m;
            results(sums, windows, p->ratio + m, filters, range, y);
        }
    }
}

#endif
#endif
