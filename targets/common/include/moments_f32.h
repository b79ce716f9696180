/* Moments of gradients: moving means that begin at zero, and what they have of their weights after some updates. */
#ifndef MOMENTS_F32_H
#define MOMENTS_F32_H

#include <stdint.h>

/* 1 - x^count from c = 1 - x: of powers with these complements c and d the product has c + d (1 - c). Nothing cancels,
 * where x^count near 1 would leave few digits of the difference. */
static inline float moment_weight(float c, uint32_t count) {
    float found = 0.0f;
    for (; count; count >>= 1) {
        if (count & 1u) found = __builtin_fmaf(c, 1.0f - found, found);
        c = __builtin_fmaf(c, 1.0f - c, c);
    }
    return found;
}

#endif
