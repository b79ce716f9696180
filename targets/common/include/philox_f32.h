/* Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, Parallel random numbers: as easy as 1, 2, 3, SC 2011): four random words
 * that follow from a counter of four words and a key of two, and from nothing else. */
#ifndef PHILOX_F32_H
#define PHILOX_F32_H

#include <stdint.h>

static inline void philox_round(uint32_t counter[4], uint32_t low, uint32_t high) {
    const uint64_t a = (uint64_t)0xD2511F53u * counter[0], b = (uint64_t)0xCD9E8D57u * counter[2];
    counter[0] = (uint32_t)(b >> 32) ^ counter[1] ^ low;
    counter[1] = (uint32_t)b;
    counter[2] = (uint32_t)(a >> 32) ^ counter[3] ^ high;
    counter[3] = (uint32_t)a;
}

/* The words come in place of the counter. */
static inline void philox(uint32_t counter[4], uint32_t low, uint32_t high) {
    for (uint32_t round = 0; round < 10; round++) {
        philox_round(counter, low, high);
        low += 0x9E3779B9u;
        high += 0xBB67AE85u;
    }
}

#endif
