/* Multiplication and addition with one rounding, to the nearest even, by integers alone: for machines that have no such
 * instruction and whose library rounds twice. Only where hal.h defines HAL_OWN_FMA anything calls it. */
#include "hal.h"

#include <string.h>

enum { INFINITE = 0x7f800000, HIDDEN = 0x00800000, LEAST = -149 };

/* A finite number but 0 as significand * 2^exponent, its significand from 2^23 to below 2^24. */
typedef struct {
    uint64_t significand;
    int32_t exponent;
} parts_t;

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static parts_t parts_of(uint32_t bits) {
    parts_t parts = {bits & (HIDDEN - 1u), LEAST};
    const int32_t biased = (int32_t)(bits >> 23 & 0xffu);
    if (biased) return (parts_t){parts.significand | HIDDEN, biased - 1 + LEAST};
    for (; parts.significand < HIDDEN; parts.exponent--) parts.significand <<= 1;
    return parts;
}

/* Shifted right, the last bit set where bits are lost. */
static uint64_t jammed(uint64_t value, int32_t count) {
    if (count > 63) return value != 0;
    return value >> count | ((value & ((UINT64_C(1) << count) - 1u)) != 0);
}

/* value * 2^exponent, rounded; the value is below 2^63 and not 0. */
static uint32_t rounded(uint64_t value, int32_t exponent) {
    const int32_t highest = 63 - __builtin_clzll(value);
    const int32_t shift = highest - 23 > LEAST - exponent ? highest - 23 : LEAST - exponent;
    if (shift > 63) return 0;
    if (shift <= 0) return ((uint32_t)(exponent + shift - LEAST) << 23) + (uint32_t)(value << -shift);
    const uint64_t rest = value & ((UINT64_C(1) << shift) - 1u), half = UINT64_C(1) << (shift - 1);
    uint32_t kept = (uint32_t)(value >> shift);
    kept += rest > half || (rest == half && (kept & 1u));
    if (exponent + shift - LEAST > 254) return INFINITE;
    const uint32_t bits = ((uint32_t)(exponent + shift - LEAST) << 23) + kept;
    return bits < INFINITE ? bits : INFINITE;
}

float hal_fmaf(float x, float y, float z) {
    const uint32_t a = bits_of(x), b = bits_of(y), c = bits_of(z), sign = 0x80000000u;
    const int finite = (a & INFINITE) != INFINITE && (b & INFINITE) != INFINITE;
    if (finite && (c & ~sign) == INFINITE) return z;
    if (!finite || (c & INFINITE) == INFINITE || x == 0.0f || y == 0.0f) return x * y + z; /* the product is exact */
    if (z == 0.0f) return x * y;
    const parts_t p = parts_of(a), q = parts_of(b), r = parts_of(c);
    uint64_t product = p.significand * q.significand << 14, addend = r.significand << 38;
    int32_t exponent = p.exponent + q.exponent - 14;
    const int32_t apart = exponent - (r.exponent - 38);
    if (apart >= 0) {
        addend = jammed(addend, apart);
    } else {
        product = jammed(product, -apart);
        exponent -= apart;
    }
    const uint32_t minus = (a ^ b) & sign;
    if (minus == (c & sign)) return float_of(minus | rounded(product + addend, exponent));
    if (product == addend) return 0.0f;
    if (product > addend) return float_of(minus | rounded(product - addend, exponent));
    return float_of((c & sign) | rounded(addend - product, exponent));
}
