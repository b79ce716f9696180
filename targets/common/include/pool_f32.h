/* Windows of pooling along one axis. */
#ifndef POOL_F32_H
#define POOL_F32_H

#include "hal.h"
#include "share_f32.h"

/* Taps k of a window with 0 <= first + k * dilation < size. */
static inline share_t taps_inside(int32_t first, uint32_t kernel, uint32_t dilation, uint32_t size) {
    share_t taps = {0, kernel};
    while (taps.begin < taps.end && first + (int32_t)(taps.begin * dilation) < 0) taps.begin++;
    while (taps.end > taps.begin && first + (int32_t)((taps.end - 1) * dilation) >= (int32_t)size) taps.end--;
    return taps;
}

#endif
