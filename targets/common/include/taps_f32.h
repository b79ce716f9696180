/* Taps of a window that lie inside an axis. */
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

#endif
