/* Taps of a window that lie inside an axis, and those of all windows that meet a place. */
#ifndef TAPS_F32_H
#define TAPS_F32_H

#include "share_f32.h"

/* Those of `count` taps k with 0 <= first + k * step < size. */
static inline share_t taps_inside(int32_t first, uint32_t count, uint32_t step, uint32_t size) {
    share_t taps = {0, count};
    if (first >= 0 && (uint32_t)first + (count - 1) * step < size) return taps;
    while (taps.begin < taps.end && first + (int32_t)(taps.begin * step) < 0) taps.begin++;
    while (taps.end > taps.begin && first + (int32_t)((taps.end - 1) * step) >= (int32_t)size) taps.end--;
    return taps;
}

/* Taps first, first + step, .. and the windows they belong to: `window`, window - back, .. */
typedef struct {
    uint32_t first, count, window;
} taps_t;

/* The taps k of windows t / stride below length, where t = at - k * dilation is a multiple of stride from zero up. */
static inline taps_t taps_of(int32_t at, uint32_t taps, uint32_t dilation, uint32_t stride, uint32_t length) {
    taps_t met = {0, 0, 0};
    for (uint32_t k = 0; k < taps && at - (int32_t)(k * dilation) >= 0; k++) {
        const uint32_t t = (uint32_t)at - k * dilation, window = t / stride;
        if (window * stride != t || window >= length) continue;
        if (met.count++ == 0) {
            met.first = k;
            met.window = window;
        }
    }
    return met;
}

#endif
