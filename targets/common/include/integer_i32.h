/* Integers of 32 bits: what leaves them wraps, and nothing is undefined. A quotient by zero is 0, a remainder by zero too. */
#ifndef INTEGER_I32_H
#define INTEGER_I32_H

#include <stdint.h>

static inline int32_t sum_i32(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }

static inline int32_t difference_i32(int32_t a, int32_t b) { return (int32_t)((uint32_t)a - (uint32_t)b); }

static inline int32_t product_i32(int32_t a, int32_t b) { return (int32_t)((uint32_t)a * (uint32_t)b); }

/* Towards zero. */
static inline int32_t quotient_i32(int32_t a, int32_t b) {
    if (b == 0) return 0;
    return b == -1 ? difference_i32(0, a) : a / b;
}

/* With the sign of a. */
static inline int32_t remainder_i32(int32_t a, int32_t b) { return b == 0 || b == -1 ? 0 : a % b; }

/* With the sign of b. */
static inline int32_t modulo_i32(int32_t a, int32_t b) {
    const int32_t rest = remainder_i32(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/* Squares of a, of which those are multiplied that stand for a bit of b. A power below zero is towards zero, and 0 of 0. */
static inline int32_t power_i32(int32_t a, int32_t b) {
    if (b < 0 && a != 1 && a != -1) return 0;
    uint32_t power = 1u, square = (uint32_t)a;
    for (uint32_t left = b < 0 ? (uint32_t)b & 1u : (uint32_t)b; left > 0; left >>= 1, square *= square)
        if (left & 1u) power *= square;
    return (int32_t)power;
}

/* Shifts by less than zero, or by more bits than there are, leave the sign alone on the right, and nothing on the left. */
static inline int32_t left_i32(int32_t a, int32_t b) { return (uint32_t)b < 32u ? (int32_t)((uint32_t)a << b) : 0; }

static inline int32_t right_i32(int32_t a, int32_t b) {
    const uint32_t bits = (uint32_t)b < 31u ? (uint32_t)b : 31u;
    return a < 0 ? ~(~a >> bits) : a >> bits;
}

static inline int32_t smaller_i32(int32_t a, int32_t b) { return a < b ? a : b; }

static inline int32_t larger_i32(int32_t a, int32_t b) { return a > b ? a : b; }

#endif
