/* Y = round(ratio * (X * W + bias)), channels innermost. A sum is exact, so no order of its terms touches the bits. Taps in
 * padding count X's zero, which the bias has taken off. */
#include "conv_i8.h"
#include "conv_copies_i8.h"
#include "hal.h"
#include "requantize_i8.h"
#include "share_f32.h"
#include "taps_f32.h"

#ifdef DOT_COPIES
void conv_i8(const void *args) {
    conv_copies(args);
}
#else
/* Four filters at a time share what is read of X. */
#define FILTERS 4

/* The sum of `count` numbers. */
static inline int32_t total(const int8_t *x, uint32_t count) {
    int32_t sum = 0;
    for (uint32_t i = 0; i < count; i++) sum += x[i];
    return sum;
}

/* Adds the products of `count` numbers of X with those of each filter. */
static inline void products(const int8_t *x, const int8_t *w, uint32_t w_m, uint32_t filters, uint32_t count, int32_t *sums) {
    if (filters == FILTERS) {
        const int8_t *w1 = w + w_m, *w2 = w1 + w_m, *w3 = w2 + w_m;
        int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
        for (uint32_t i = 0; i < count; i++) {
            const int32_t value = x[i];
            a += value * w[i];
            b += value * w1[i];
            c += value * w2[i];
            d += value * w3[i];
        }
        sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
        return;
    }
    for (uint32_t f = 0; f < filters; f++, w += w_m)
        for (uint32_t i = 0; i < count; i++) sums[f] += x[i] * w[i];
}

/* Adds X's zero times what each filter has outside of X: `count` numbers. */
static void padding(const conv_i8_args_t *p, const int8_t *w, uint32_t filters, uint32_t count, int32_t *sums) {
    for (uint32_t f = 0; f < filters; f++, w += p->w_m) sums[f] += p->x_zero * total(w, count);
}

/* The sums of up to four filters of one group at a window; returns the sum of what the window holds. */
static int32_t window(const conv_i8_args_t *p, const int8_t *x, const int8_t *w, uint32_t filters, int32_t top, int32_t left,
                      int32_t *sums) {
    const share_t rows = taps_inside(top, p->kh, p->dh, p->x_rows), columns = taps_inside(left, p->kw, p->dw, p->x_cols);
    const uint32_t c = p->c, line = p->kw * c, inside = columns.end > columns.begin ? columns.end - columns.begin : 0;
    int32_t seen = 0;
    for (uint32_t a = 0; a < p->kh; a++, w += line) {
        if (a < rows.begin || a >= rows.end || inside == 0) {
            padding(p, w, filters, line, sums);
            seen += p->x_zero * (int32_t)line;
            continue;
        }
        const int8_t *at = x + (uint32_t)(top + (int32_t)(a * p->dh)) * p->x_h;
        padding(p, w, filters, columns.begin * c, sums);
        padding(p, w + columns.end * c, filters, line - columns.end * c, sums);
        seen += p->x_zero * (int32_t)(line - inside * c);
        const uint32_t joined = p->dw == 1 && p->x_w == c ? inside : 1; /* neighbouring taps that lie together in X */
        for (uint32_t b = columns.begin; b < columns.end; b += joined) {
            const int8_t *tap = at + (uint32_t)(left + (int32_t)(b * p->dw)) * p->x_w;
            products(tap, w + b * c, p->w_m, filters, joined * c, sums);
            if (p->w_zero != 0) seen += total(tap, joined * c);
        }
    }
    return seen;
}

void conv_i8(const void *args) {
    const conv_i8_args_t *p = args;
    const share_t share = share_of(p->n * p->oh * p->ow);
    const range_i8_t range = range_i8(p->low, p->high, p->zero);
    for (uint32_t i = share.begin; i < share.end; i++) {
        const uint32_t ow = i % p->ow, line = i / p->ow, oh = line % p->oh, n = line / p->oh;
        const int32_t top = p->top + (int32_t)(oh * p->sh), left = p->left + (int32_t)(ow * p->sw);
        const int8_t *x = p->x + n * p->x_n;
        int8_t *y = p->y + n * p->y_n + oh * p->y_h + ow * p->y_w;
        for (uint32_t m = 0, filters; m < p->m; m += filters) {
            const uint32_t group = (p->first + m) / p->per_group, rest = (group + 1) * p->per_group - p->first - m;
            int32_t sums[FILTERS];
            filters = hal_min(FILTERS, hal_min(rest, p->m - m));
            for (uint32_t f = 0; f < filters; f++) sums[f] = p->b[m + f];
            const int32_t seen = window(p, x + group * p->c, p->w + m * p->w_m, filters, top, left, sums);
            for (uint32_t f = 0; f < filters; f++)
                y[m + f] = requantized_i8(sums[f] - p->w_zero * seen, p->ratio[m + f], range);
        }
    }
}
#endif
