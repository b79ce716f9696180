/* What kernels of pooling share. */
#ifndef POOL_F32_H
#define POOL_F32_H

#include "taps_f32.h"

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
