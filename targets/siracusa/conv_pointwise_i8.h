/* Y = round(ratio * (X * W + bias)) of places that lie one behind the other, with one tap of few channels: the numbers of two or
 * four filters stay in sixteen registers, and each place is read once for them. WORDS (2, 4, 6 or 8) has four channels each.
 *
 * The rounding is that of requantize_i8.h, for ratios that are numbers. */
#ifndef CONV_POINTWISE_I8_H
#define CONV_POINTWISE_I8_H

#include "all_registers.h"
#include "conv_i8.h"
#include "hal.h"
#include "round_i8.h"
#include "share_f32.h"

typedef struct {
    uint32_t saved[ALL_REGISTERS];
    int32_t b[4];
    float ratio[4];
    const int8_t *x, *w[4];
    int8_t *y;
    uint32_t y_step, count; /* bytes from place to place, and places */
    int32_t low, high;      /* before the zero */
    uint32_t zero;          /* in each of four bytes */
} places_i8_t;

#define FROM(name, field, number) "lw " name ", %[" #field "]+4*" #number "(sp)\n"
#define PLACES_FIELD(field) FIELD_OF(places_i8_t, field)

/* Words of a filter, and their products; X's words come in t0 and t1 by turns. Filters in s0 to s11 and a4 to a7, sums in a0 to
 * a3, the addresses of X and Y in t2 and t3, the step of Y in t4, the bounds in t5 and t6, the zero in ra. */
#define NEXT(x) LW_NEXT(x, "t2", 4)
#if WORDS <= 4
#define TOGETHER 4
#define FOUR_SUMS(x, w0, w1, w2, w3)                                                                                   \
    SUM_PRODUCTS("a0", x, w0) SUM_PRODUCTS("a1", x, w1) SUM_PRODUCTS("a2", x, w2) SUM_PRODUCTS("a3", x, w3)
#define WORDS_OF(DO) DO("0", "s0", "s1", "s2", "s3") DO("4", "s4", "s5", "s6", "s7")
#define FIRST_SUMS NEXT("t0") NEXT("t1") FOUR_SUMS("t0", "s0", "s1", "s2", "s3")
#define LOADED(at, w0, w1, w2, w3)                                                                                     \
    "lw " w0 ", " at "(t0)\n lw " w1 ", " at "(t1)\n lw " w2 ", " at "(t2)\n lw " w3 ", " at "(t3)\n"
#if WORDS == 4
#define FILTERS_LOADED WORDS_OF(LOADED) LOADED("8", "s8", "s9", "s10", "s11") LOADED("12", "a4", "a5", "a6", "a7")
#define SUMS                                                                                                           \
    FIRST_SUMS NEXT("t0") FOUR_SUMS("t1", "s4", "s5", "s6", "s7") NEXT("t1") FOUR_SUMS("t0", "s8", "s9", "s10", "s11")  \
    FOUR_SUMS("t1", "a4", "a5", "a6", "a7")
#else
#define FILTERS_LOADED WORDS_OF(LOADED)
#define SUMS FIRST_SUMS FOUR_SUMS("t1", "s4", "s5", "s6", "s7")
#endif
#define BIASES FROM("a0", b, 0) FROM("a1", b, 1) FROM("a2", b, 2) FROM("a3", b, 3)
#define RESULTS                                                                                                        \
    ROUNDED("a0", "ft0", "t5", "t6") ROUNDED("a1", "ft1", "t5", "t6") ROUNDED("a2", "ft2", "t5", "t6")                 \
    ROUNDED("a3", "ft3", "t5", "t6") PACK_LOW("a0", "a1", "a0") PACK_HIGH("a0", "a3", "a2") ADD_BYTES("a0", "a0", "ra") \
    SW_STEP("a0", "t3", "t4")
#define LENGTH 28 + 5 * WORDS /* instructions of a place */
#else
#define TOGETHER 2
#define TWO_SUMS(x, w0, w1) SUM_PRODUCTS("a0", x, w0) SUM_PRODUCTS("a1", x, w1)
#define LOADED(at, w0, w1) "lw " w0 ", " at "(t0)\n lw " w1 ", " at "(t1)\n"
#define SIX_LOADED                                                                                                     \
    LOADED("0", "s0", "s1") LOADED("4", "s2", "s3") LOADED("8", "s4", "s5") LOADED("12", "s6", "s7")                   \
    LOADED("16", "s8", "s9") LOADED("20", "s10", "s11")
#define SIX_SUMS                                                                                                       \
    NEXT("t0") NEXT("t1") TWO_SUMS("t0", "s0", "s1") NEXT("t0") TWO_SUMS("t1", "s2", "s3") NEXT("t1")                  \
    TWO_SUMS("t0", "s4", "s5") NEXT("t0") TWO_SUMS("t1", "s6", "s7") NEXT("t1") TWO_SUMS("t0", "s8", "s9")
#if WORDS == 8
#define FILTERS_LOADED SIX_LOADED LOADED("24", "a4", "a5") LOADED("28", "a6", "a7")
#define SUMS                                                                                                           \
    SIX_SUMS NEXT("t0") TWO_SUMS("t1", "s10", "s11") NEXT("t1") TWO_SUMS("t0", "a4", "a5") TWO_SUMS("t1", "a6", "a7")
#else
#define FILTERS_LOADED SIX_LOADED
#define SUMS SIX_SUMS TWO_SUMS("t1", "s10", "s11")
#endif
#define BIASES FROM("a0", b, 0) FROM("a1", b, 1)
#define RESULTS                                                                                                        \
    ROUNDED("a0", "ft0", "t5", "t6") ROUNDED("a1", "ft1", "t5", "t6") PACK_LOW("a0", "a1", "a0")                       \
    ADD_BYTES("a0", "a0", "ra") SH_STEP("a0", "t3", "t4")
#define LENGTH 15 + 3 * WORDS
#endif

/* The results of TOGETHER filters at `count` places. */
static __attribute__((naked, noinline, used)) void places_i8(places_i8_t *p) {
    (void)p;
    __asm__ volatile(
        ENTER FROM("t0", w, 0) FROM("t1", w, 1) FROM("t2", w, 2) FROM("t3", w, 3) FILTERS_LOADED
        FROM("t2", x, 0) FROM("t3", y, 0) FROM("t4", y_step, 0) FROM("t5", low, 0) FROM("t6", high, 0) FROM("ra", zero, 0)
        "flw ft0, %[ratio](sp)\n flw ft1, %[ratio]+4(sp)\n flw ft2, %[ratio]+8(sp)\n flw ft3, %[ratio]+12(sp)\n"
        FROM("t0", count, 0)
        LOOP("t0", LENGTH) BIASES SUMS RESULTS LOOP_END(LENGTH)
        LEAVE
        :
        : PLACES_FIELD(b), PLACES_FIELD(ratio), PLACES_FIELD(x), PLACES_FIELD(w), PLACES_FIELD(y), PLACES_FIELD(y_step),
          PLACES_FIELD(count), PLACES_FIELD(low), PLACES_FIELD(high), PLACES_FIELD(zero)
        : "memory");
}

static inline void pointwise(const conv_i8_args_t *p) {
    const uint32_t places = p->n * p->oh * p->ow, sets = (p->m + TOGETHER - 1) / TOGETHER;
    const share_t share = share_of(places * sets);
    if (share.begin == share.end) return;
    places_i8_t run;
    run.y_step = p->y_w, run.low = (int32_t)p->low, run.high = (int32_t)p->high, run.zero = in_each_byte(p->zero);
    uint32_t set = share.begin / places, first = share.begin - set * places;
    for (uint32_t left = share.end - share.begin; left > 0; left -= run.count, first = 0, set++) {
        const uint32_t m = hal_min(set * TOGETHER, p->m - TOGETHER); /* the last set begins early enough to be a whole one */
        run.count = hal_min(places - first, left);
        run.x = p->x + first * 4 * WORDS, run.y = p->y + first * p->y_w + m;
        for (uint32_t f = 0; f < 4; f++) {
            const uint32_t filter = m + hal_min(f, TOGETHER - 1);
            run.b[f] = p->b[filter], run.ratio[f] = p->ratio[filter], run.w[f] = p->w + filter * p->w_m;
        }
        places_i8(&run);
    }
}

#endif
