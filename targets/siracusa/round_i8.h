/* Floats to numbers of 8 bits as requantize_i8.h has it, for what is a number, four at a time. */
#ifndef ROUND_I8_H
#define ROUND_I8_H

#include "pulp.h"

/* A sum in register c times a ratio, rounded half to even and between two bounds; by way of ft4. */
#define ROUNDED(c, ratio, low, high)                                                                                   \
    "fcvt.s.w ft4, " c "\n fmul.s ft4, ft4, " ratio "\n fcvt.w.s " c ", ft4, rne\n" MAX(c, c, low) MIN(c, c, high)

/* Rounded half to even, between two bounds. */
static inline int32_t rounded(float value, int32_t low, int32_t high) {
    int32_t whole;
    __asm__("fcvt.w.s %0, %1, rne\n" MAX("%0", "%0", "%2") MIN("%0", "%0", "%3") : "=&r"(whole) : "f"(value), "r"(low), "r"(high));
    return whole;
}

static inline uint32_t in_each_byte(int32_t value) { return (uint8_t)value * 0x01010101u; }

/* The last bytes of four numbers, each with a zero added. Between bounds 255 apart they are the results. */
static inline uint32_t four_of(const int32_t *numbers, uint32_t zeros) {
    uint32_t four = (uint32_t)numbers[0];
    __asm__(PACK_LOW("%0", "%1", "%0") PACK_HIGH("%0", "%3", "%2") ADD_BYTES("%0", "%0", "%4")
            : "+&r"(four) : "r"(numbers[1]), "r"(numbers[2]), "r"(numbers[3]), "r"(zeros));
    return four;
}

/* Four bytes wherever they begin. */
static inline void put_four(int8_t *y, uint32_t four) { __asm__ volatile("sw %0, 0(%1)" : : "r"(four), "r"(y) : "memory"); }

#endif
