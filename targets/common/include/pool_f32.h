/* Windows of pooling along one axis. */
#ifndef POOL_F32_H
#define POOL_F32_H

#include "hal.h"
#include "share_f32.h"

/* Taps k of a window with 0 <= first + k * dilation < size. */
static inline share_t taps_inside(int32_t first, uint32_t kernel, uint32_t dilation, uint32_t size) {
    share_t taps = {0, kernel};
    if (first >= 0 && (uint32_t)first + (kernel - 1) * dilation < size) return taps;
    while (taps.begin < taps.end && first + (int32_t)(taps.begin * dilation) < 0) taps.begin++;
    while (taps.end > taps.begin && first + (int32_t)((taps.end - 1) * dilation) >= (int32_t)size) taps.end--;
    return taps;
}

/* Rows from `row` on in one image of `height` rows, `most` at the most. */
static inline uint32_t rows_from(uint32_t row, uint32_t height, uint32_t most) {
    return height - row < most ? height - row : most;
}

static inline void clear_rows(float *x, uint32_t rows, uint32_t columns, uint32_t stride) {
    if (stride == columns) columns *= rows, rows = 1;
    for (; rows > 0; rows--, x += stride)
        for (uint32_t i = 0; i < columns; i++) {
            x[i] = 0.0f;
            __asm__ volatile(""); /* or a compiler calls memset, which is not there */
        }
}

#endif
