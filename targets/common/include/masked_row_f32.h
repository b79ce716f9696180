/* A row of shares: the softmax of its first elements, and zeros behind them. A target with loops of its own says HAL_ROWS in
 * its hal_target.h, and has them in a masked_row.h, which says what the function here does. */
#ifndef MASKED_ROW_F32_H
#define MASKED_ROW_F32_H

#include "lines_f32.h"
#include "math_f32.h"
#include "sum_f32.h"

/* Whether all of a row is minus infinity. */
static inline uint32_t row_is_hidden(const float *x, uint32_t count) {
    for (uint32_t c = 0; c < count; c++)
        if (x[c] != -__builtin_inff()) return 0;
    return 1;
}

/* The largest score of a row, and the sum of powers, which is 0 of a row of minus infinity. */
typedef struct {
    float max, sum;
} row_stats_t;

#ifdef HAL_ROWS
#include "masked_row.h"
#else

/* y = exp(s - max) / sum(exp(s - max)) over the first `seen` of the classes of s = alpha x + mask, each rounded, in the
 * order of sum_f32.h; the mask may be absent, and y may be x. With `safe` a row of minus infinity becomes zeros. */
static inline row_stats_t masked_row(float *y, const float *x, const float *mask, uint32_t classes, uint32_t seen,
                                     float alpha, uint32_t safe) {
    const uint32_t size = classes > SUM_BLOCK ? SUM_BLOCK : 0;
    float max = 0.0f;
    sum_t powers = {0};
    for (uint32_t c = 0; c < seen; c++) {
        const float scaled = x[c] * alpha, score = mask ? scaled + mask[c] : scaled;
        y[c] = score;
        max = c == 0 || score > max ? score : max;
    }
    fill_line_f32(y + seen, 0.0f, classes - seen);
    if (safe && row_is_hidden(y, seen)) {
        fill_line_f32(y, 0.0f, seen);
        return (row_stats_t){max, 0.0f};
    }
    for (uint32_t c = 0; c < seen;)
        for (const uint32_t end = c + sum_next(&powers, size, c, seen - c); c < end; c++) {
            y[c] = expf_f32(y[c] - max);
            powers.block += y[c];
        }
    const float sum = sum_value(&powers, size);
    for (uint32_t c = 0; c < seen; c++) y[c] = y[c] / sum;
    return (row_stats_t){max, sum};
}

#endif

#endif
