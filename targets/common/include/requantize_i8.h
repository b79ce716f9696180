/* Floats to numbers of 8 bits. NaN becomes the least one. Beyond 1.5 * 2^23 a float has no bits below one, so that
 * a sum with it is rounded half to even, on every IEEE machine and without a function; its last bits are the integer. */
#ifndef REQUANTIZE_I8_H
#define REQUANTIZE_I8_H

#include <stdint.h>

#include "math_f32.h"

#define ROUNDING_I8 12582912.0f

/* `value` between two whole numbers within 16 bits, rounded half to even, and moved by the zero. */
static inline int8_t rounded_i8(float value, float low, float high, int32_t zero) {
    value = value > low ? value : low;
    value = value < high ? value : high;
    return (int8_t)((int32_t)bits_of_f32(value + ROUNDING_I8) - (int32_t)bits_of_f32(ROUNDING_I8) + zero);
}

/* Range of requantized sums: the bounds of their rounded products with ratios, which are numbers, and the zero. Where a machine has
 * instructions that round and that saturate, bounds of all 8 bits are quicker: saturated_i8 is for ranges of which is_all_i8 holds. */
#if defined(__arm__) && defined(__ARM_FP) && defined(__ARM_FEATURE_DSP) && defined(__GNUC__)
typedef struct {
    int32_t low, high, zero;
} range_i8_t;

static inline range_i8_t range_i8(float low, float high, int32_t zero) {
    return (range_i8_t){(int32_t)low, (int32_t)high, zero};
}

static inline int is_all_i8(range_i8_t range) { return range.low + range.zero == -128 && range.high + range.zero == 127; }

/* Half to even, and the ends of 32 bits for what is beyond them. */
static inline int32_t rounded_product(int32_t sum, float ratio) {
    float value = (float)sum * ratio;
    __asm__("vcvtr.s32.f32 %0, %0" : "+t"(value));
    return (int32_t)bits_of_f32(value);
}

static inline int8_t saturated_i8(int32_t sum, float ratio, range_i8_t range) {
    int32_t whole = rounded_product(sum, ratio);
    __asm__("qadd %0, %0, %1\n ssat %0, #8, %0" : "+r"(whole) : "r"(range.zero));
    return (int8_t)whole;
}

static inline int8_t requantized_i8(int32_t sum, float ratio, range_i8_t range) {
    int32_t whole = rounded_product(sum, ratio);
    whole = whole > range.low ? whole : range.low;
    whole = whole < range.high ? whole : range.high;
    return (int8_t)(whole + range.zero);
}
#else
typedef struct {
    float low, high;
    int32_t zero;
} range_i8_t;

static inline range_i8_t range_i8(float low, float high, int32_t zero) { return (range_i8_t){low, high, zero}; }

static inline int is_all_i8(range_i8_t range) {
    (void)range;
    return 0;
}

static inline int8_t requantized_i8(int32_t sum, float ratio, range_i8_t range) {
    return rounded_i8((float)sum * ratio, range.low, range.high, range.zero);
}

static inline int8_t saturated_i8(int32_t sum, float ratio, range_i8_t range) { return requantized_i8(sum, ratio, range); }
#endif

#endif
