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

#endif
