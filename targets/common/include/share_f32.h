/* Shares of a range between cores: contiguous, in order, at most one element apart in length. */
#ifndef SHARE_F32_H
#define SHARE_F32_H

#include "hal.h"

typedef struct {
    uint32_t begin, end;
} share_t;

static inline share_t share_of(uint32_t total) {
    const uint32_t cores = hal_core_count(), id = hal_core_id();
    uint32_t each, extra;
    if ((cores & (cores - 1)) == 0 && cores <= 8) { /* no division where it is a shift */
        each = total >> ((cores >> 1) - (cores >> 3));
        extra = total & (cores - 1);
    } else {
        each = total / cores;
        extra = total - each * cores;
    }
    const uint32_t begin = id * each + (id < extra ? id : extra);
    return (share_t){begin, begin + each + (id < extra ? 1u : 0u)};
}

#endif
