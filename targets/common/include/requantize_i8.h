/* Floats to numbers of 8 bits. What is no number becomes the least one. Beyond 1.5 * 2^23 a float has no bits below one, so that
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

/* What sums become: the bounds of their rounded products with ratios, which are numbers, and the zero. */
#if defined(__arm__) && defined(__ARM_FP) && defined(__GNUC__) /* with an instruction that rounds, bounds are integers */
typedef struct {
    int32_t low, high, zero, all; /* whether the bounds are those of 8 bits */
} range_i8_t;

static inline range_i8_t range_i8(float low, float high, int32_t zero) {
    const int32_t first = (int32_t)low, last = (int32_t)high;
    return (range_i8_t){first, last, zero, first + zero == -128 && last + zero == 127};
}

static inline int8_t requantized_i8(int32_t sum, float ratio, range_i8_t range) {
    float value = (float)sum * ratio;
    __asm__("vcvtr.s32.f32 %0, %0" : "+t"(value)); /* half to even, and the ends of 32 bits for what is beyond them */
    int32_t whole = (int32_t)bits_of_f32(value);
#ifdef __ARM_FEATURE_DSP
    if (range.all) {
        __asm__("qadd %0, %0, %1\n ssat %0, #8, %0" : "+r"(whole) : "r"(range.zero));
        return (int8_t)whole;
    }
#endif
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

static inline int8_t requantized_i8(int32_t sum, float ratio, range_i8_t range) {
    return rounded_i8((float)sum * ratio, range.low, range.high, range.zero);
}
#endif

#endif
