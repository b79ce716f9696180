/* Pools of 8-bit numbers with the channels innermost, four channels at a time; the last four begin early enough to be four.
 * POOL_ARGS is the arguments' type, POOL(p, window) four results. */
#ifndef POOL_WORDS_I8_H
#define POOL_WORDS_I8_H

#include "hal.h"
#include "pulp.h"
#include "share_f32.h"
#include "taps_f32.h"

/* What a window has inside of X: `rows` rows, x_h bytes apart, of `columns` words, x_w bytes apart. */
typedef struct {
    uintptr_t x;
    uint32_t rows, columns, x_h, x_w;
} window_i8_t;

#define POOL_WORDS(POOL_ARGS, POOL)                                                                                    \
    static inline void pool_words(const POOL_ARGS *p) {                                                                \
        const uint32_t fours = (p->m + 3) / 4, last = p->m - 4;                                                        \
        const share_t share = share_of(p->n * p->oh * p->ow * fours);                                                  \
        if (share.begin == share.end) return;                                                                          \
        const uint32_t place = share.begin / fours, line = place / p->ow;                                              \
        uint32_t four = share.begin - place * fours, ow = place - line * p->ow, n = line / p->oh, oh = line - n * p->oh; \
        for (uint32_t left = share.end - share.begin; left > 0;) {                                                     \
            const int32_t top = p->top + (int32_t)(oh * p->sh), first = p->left + (int32_t)(ow * p->sw);               \
            const share_t rows = taps_inside(top, p->kh, p->dh, p->x_rows);                                            \
            const share_t columns = taps_inside(first, p->kw, p->dw, p->x_cols);                                       \
            const int32_t at = (top + (int32_t)(rows.begin * p->dh)) * (int32_t)p->x_h +                               \
                               (first + (int32_t)(columns.begin * p->dw)) * (int32_t)p->x_w;                           \
            const uintptr_t x = (uintptr_t)p->x + n * p->x_n + (uint32_t)at;                                           \
            int8_t *y = p->y + n * p->y_n + oh * p->y_h + ow * p->y_w;                                                 \
            window_i8_t window = {0, rows.end - rows.begin, columns.end - columns.begin, p->dh * p->x_h, p->dw * p->x_w}; \
            for (; four < fours && left > 0; four++, left--) {                                                         \
                const uint32_t m = hal_min(4 * four, last);                                                            \
                window.x = x + m;                                                                                      \
                put_four(y + m, POOL(p, &window));                                                                     \
            }                                                                                                          \
            four = 0;                                                                                                  \
            if (++ow < p->ow) continue;                                                                                \
            ow = 0;                                                                                                    \
            if (++oh < p->oh) continue;                                                                                \
            oh = 0, n++;                                                                                               \
        }                                                                                                              \
    }

#endif
