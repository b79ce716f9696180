/* Results of up to four places by filters of 8-bit numbers, four filters at a time: sums of products in registers, then the
 * rounding to 8 bits of requantize_i8.h, for ratios that are numbers.
 *
 * Sixteen sums, eight addresses and six values are all the registers there are. */
#ifndef BLOCK_I8_H
#define BLOCK_I8_H

#include <stdint.h>

#include "all_registers.h"
#include "round_i8.h"

#define PLACES 4
#define FILTERS 4

/* Runs of numbers that lie one behind the other both in X and in a filter. */
typedef struct {
    uint32_t saved[ALL_REGISTERS];
    const int8_t *w; /* of the first filter */
    uint32_t w_m;    /* bytes from filter to filter */
    uint32_t w_back; /* by how many the runs of one reach into the next */
    const int32_t *b;
    const float *ratio;
    uint32_t blocks;       /* of four filters */
    int8_t *y[PLACES];     /* where the results of a place go; behind the call, where the next ones would */
    int32_t low, high;     /* before the zero */
    uint32_t zero;         /* in each of four bytes */
    const int8_t **table;  /* for each run the addresses at the places */
    uint32_t runs, words;  /* of a run: four numbers each, one at least */
    const int8_t **at;     /* of the table */
} block_i8_t;

/* Names of registers: X of two places in t0 and t1, filters in t2 to t5; addresses of the places in a0 to a3, of the filters
 * in a4 to a7; the sums of a place in four registers. */
#define PLACE_0(DO, x) DO(x, "s0", "s1", "s2", "s3")
#define PLACE_1(DO, x) DO(x, "s4", "s5", "s6", "s7")
#define PLACE_2(DO, x) DO(x, "s8", "s9", "s10", "s11")
#define PLACE_3(DO, x) DO(x, "ra", "gp", "tp", "t6")
#define PRODUCTS(x, c0, c1, c2, c3)                                                                                    \
    SUM_PRODUCTS(c0, "t2", x) SUM_PRODUCTS(c1, "t3", x) SUM_PRODUCTS(c2, "t4", x) SUM_PRODUCTS(c3, "t5", x)
#define COPIED(x, c0, c1, c2, c3) "mv " c0 ", s0\n mv " c1 ", s1\n mv " c2 ", s2\n mv " c3 ", s3\n"

/* In the text that follows, N(field) is a field's place in the struct; ratios in ft0 to ft3; the bounds in t3 and t4, the zero
 * in t5. Between bounds 255 apart, the last byte of a sum with the zero is the result. */
#define RESULTS(_, c0, c1, c2, c3)                                                                                     \
    ROUNDED(c0, "ft0", "t3", "t4") ROUNDED(c1, "ft1", "t3", "t4") ROUNDED(c2, "ft2", "t3", "t4")                       \
    ROUNDED(c3, "ft3", "t3", "t4") "lw a0, 0(t0)\n"                                                                    \
    PACK_LOW(c0, c1, c0) PACK_HIGH(c0, c3, c2) ADD_BYTES(c0, c0, "t5") SW_NEXT(c0, "a0", 4) SW_NEXT("a0", "t0", 4)

#define PLACE_IN(field) FIELD_OF(block_i8_t, field)

static __attribute__((naked, noinline, used)) void block_i8(block_i8_t *p) {
    (void)p;
    __asm__ volatile(
        ENTER "lw a4, %[w](sp)\n"
        "1: lw t0, %[w_m](sp)\n lw t1, %[b](sp)\n"
        "add a5, a4, t0\n add a6, a5, t0\n add a7, a6, t0\n"
        LW_NEXT("s0", "t1", 4) LW_NEXT("s1", "t1", 4) LW_NEXT("s2", "t1", 4) LW_NEXT("s3", "t1", 4)
        "sw t1, %[b](sp)\n lw t2, %[runs](sp)\n lw t0, %[table](sp)\n lw t1, %[words](sp)\n"
        PLACE_1(COPIED, ) PLACE_2(COPIED, ) PLACE_3(COPIED, )
        LOOP_OUTER("t2", 32)
        LW_NEXT("a0", "t0", 4) LW_NEXT("a1", "t0", 4) LW_NEXT("a2", "t0", 4) LW_NEXT("a3", "t0", 4)
        "sw t0, %[at](sp)\n"
        LOOP("t1", 24)
        LW_NEXT("t2", "a4", 4) LW_NEXT("t3", "a5", 4) LW_NEXT("t4", "a6", 4) LW_NEXT("t5", "a7", 4)
        LW_NEXT("t0", "a0", 4) LW_NEXT("t1", "a1", 4) PLACE_0(PRODUCTS, "t0")
        LW_NEXT("t0", "a2", 4) PLACE_1(PRODUCTS, "t1") LW_NEXT("t1", "a3", 4) PLACE_2(PRODUCTS, "t0") PLACE_3(PRODUCTS, "t1")
        LOOP_END(24)
        "lw t0, %[at](sp)\n lw t1, %[words](sp)\n"
        LOOP_OUTER_END(32)
        "lw t0, %[ratio](sp)\n lw t3, %[low](sp)\n lw t4, %[high](sp)\n lw t5, %[zero](sp)\n"
        FLW("ft0", "t0", 0) FLW("ft1", "t0", 4) FLW("ft2", "t0", 8) FLW("ft3", "t0", 12)
        "addi t0, t0, 16\n sw t0, %[ratio](sp)\n"
        "addi t0, sp, %[y]\n li t1, 2\n"
        LOOP("t1", 60) /* two places a turn: all of a block's code fits a core's cache */
        PLACE_0(RESULTS, ) PLACE_1(RESULTS, )
        "mv s0, s8\n mv s1, s9\n mv s2, s10\n mv s3, s11\n mv s4, ra\n mv s5, gp\n mv s6, tp\n mv s7, t6\n"
        LOOP_END(60)
        "lw t0, %[blocks](sp)\n lw t1, %[w_back](sp)\n addi t0, t0, -1\n sw t0, %[blocks](sp)\n sub a4, a7, t1\n bnez t0, 1b\n"
        LEAVE
        :
        : PLACE_IN(w), PLACE_IN(w_m), PLACE_IN(w_back), PLACE_IN(b), PLACE_IN(ratio), PLACE_IN(blocks), PLACE_IN(y),
          PLACE_IN(low), PLACE_IN(high), PLACE_IN(zero), PLACE_IN(table), PLACE_IN(runs), PLACE_IN(words), PLACE_IN(at)
        : "memory");
}

#endif
