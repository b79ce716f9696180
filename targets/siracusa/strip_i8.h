/* Results of 3 x 3 windows of four neighbouring channels of 8-bit numbers, each channel with a filter of its own, along three
 * lines that have nothing but these channels; then the rounding to 8 bits of requantize_i8.h, for ratios that are numbers.
 *
 * Four taps of four channels are turned into four channels of four taps, whose products are one instruction each. All registers
 * are taken. */
#ifndef STRIP_I8_H
#define STRIP_I8_H

#include <stdint.h>

#include "all_registers.h"
#include "round_i8.h"

typedef struct {
    uint32_t saved[ALL_REGISTERS];
    uint32_t w[8], last[4]; /* for each channel four taps in the order of TURN, and four; the last, where the channel's byte is */
    const uint32_t *lines[3];
    uint32_t step; /* bytes from window to window */
    int8_t *y;
    uint32_t y_step, count;
    int32_t low, high; /* before the zero */
    uint32_t zero;     /* in each of four bytes */
    int32_t b[4];
    float ratio[4];
} strip_i8_t;

/* From taps in t0 to t3, of channels by bytes, to channels in t1, t4, t3 and t0. */
#define TURNED                                                                                                         \
    "mv t4, t0\n" SHUFFLE("t4", "t1", "a4") SHUFFLE("t0", "t1", "a5") "mv t5, t2\n" SHUFFLE("t5", "t3", "a4")            \
    SHUFFLE("t2", "t3", "a5") PACK_HALVES("t1", "t5", "t4") SHUFFLE("t4", "t5", "a6") PACK_HALVES("t3", "t2", "t0")      \
    SHUFFLE("t0", "t2", "a6")
#define FOUR_TAPS(w0, w1, w2, w3)                                                                                      \
    TURNED SUM_PRODUCTS("s8", "t1", w0) SUM_PRODUCTS("s9", "t4", w1) SUM_PRODUCTS("s10", "t3", w2)                       \
    SUM_PRODUCTS("s11", "t0", w3)
#define FROM(name, field, number) "lw " name ", %[" #field "]+4*" #number "(sp)\n"
#define STRIP_FIELD(field) FIELD_OF(strip_i8_t, field)

static __attribute__((naked, noinline, used)) void strip_i8(strip_i8_t *p) {
    (void)p;
    __asm__ volatile(
        ENTER
        FROM("s0", w, 0) FROM("s1", w, 1) FROM("s2", w, 2) FROM("s3", w, 3)
        FROM("s4", w, 4) FROM("s5", w, 5) FROM("s6", w, 6) FROM("s7", w, 7)
        FROM("a0", lines, 0) FROM("a1", lines, 1) FROM("a2", lines, 2) FROM("a3", step, 0)
        "li a4, 0x05010400\n li a5, 0x07030602\n li a6, 0x07060302\n"
        FROM("a7", y, 0) FROM("t6", y_step, 0) FROM("ra", low, 0) FROM("gp", high, 0) FROM("tp", zero, 0)
        "flw ft0, %[ratio](sp)\n flw ft1, %[ratio]+4(sp)\n flw ft2, %[ratio]+8(sp)\n flw ft3, %[ratio]+12(sp)\n"
        FROM("t5", count, 0)
        LOOP("t5", 73)
        "lw t0, 4(a0)\n lw t1, 8(a0)\n" LW_STEP("t2", "a0", "a3") "lw t3, 8(a2)\n"
        FROM("s8", b, 0) FROM("s9", b, 1) FROM("s10", b, 2) FROM("s11", b, 3)
        FOUR_TAPS("s0", "s1", "s2", "s3")
        "lw t0, 4(a1)\n lw t1, 8(a1)\n" LW_STEP("t2", "a1", "a3") "lw t3, 4(a2)\n"
        FOUR_TAPS("s4", "s5", "s6", "s7")
        LW_STEP("t0", "a2", "a3") FROM("t1", last, 0) FROM("t2", last, 1) FROM("t3", last, 2) FROM("t4", last, 3)
        SUM_PRODUCTS("s8", "t0", "t1") SUM_PRODUCTS("s9", "t0", "t2") SUM_PRODUCTS("s10", "t0", "t3")
        SUM_PRODUCTS("s11", "t0", "t4")
        ROUNDED("s8", "ft0", "ra", "gp") ROUNDED("s9", "ft1", "ra", "gp")
        ROUNDED("s10", "ft2", "ra", "gp") ROUNDED("s11", "ft3", "ra", "gp")
        PACK_LOW("s8", "s9", "s8") PACK_HIGH("s8", "s11", "s10") ADD_BYTES("s8", "s8", "tp") SW_STEP("s8", "a7", "t6")
        LOOP_END(73)
        LEAVE
        :
        : STRIP_FIELD(w), STRIP_FIELD(last), STRIP_FIELD(lines), STRIP_FIELD(step), STRIP_FIELD(y), STRIP_FIELD(y_step),
          STRIP_FIELD(count), STRIP_FIELD(low), STRIP_FIELD(high), STRIP_FIELD(zero), STRIP_FIELD(b), STRIP_FIELD(ratio)
        : "memory");
}

#endif
