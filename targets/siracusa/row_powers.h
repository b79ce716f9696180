/* Rows of softmax: their largest element, and powers e^(x - max) with their sum, in the order of sum_f32.h. */
#ifndef ROW_POWERS_H
#define ROW_POWERS_H

#include "exponential.h"
#include "quotient.h"
#include "sum_f32.h"

#define ROW_POWERS static inline __attribute__((always_inline))

/* NaN is left out; the sum of powers has it. */
ROW_POWERS float largest_of(const float *x, uint32_t step, uint32_t count) {
    float largest = *x;
    __asm__ volatile(LOOP("%[count]", 3) FLW("ft0", "%[x]", 0) ADD("%[x]", "%[step]")
                     "fmax.s %[largest], %[largest], ft0\n" LOOP_END(3)
                     : [x] "+&r"(x), [largest] "+&f"(largest)
                     : [step] "r"(4 * step), [count] "r"(count)
                     : "ft0", "memory");
    return largest;
}

/* The bits of -104: what is below has no power but 0. */
#define LAST_POWER 0xc2d00000u
/* A power is made 2^64 times as large, as then none is subnormal, and the product with 2^-64 rounds once if at all. */
#define SCALE 64
#define LARGE_SHIFTER LITERAL_F32(0x1.8p+23f + SCALE)
#define NO_POWER 0x7f800000u /* what `least` begins with */
/* 2^-100 so scaled, one less: from such powers on the remainders of quotient_by, by a sum of powers, are floats. */
#define USUAL_POWER (0x2d800000u - 1)

/* The power of x = ft0, which is at most 0 or the NaN that arithmetic makes, with the bits of expf_f32. Two cores share an FPU,
 * so integer instructions between those of the FPU cost no time. */
#define POWER                                                                                                         \
    "fmv.x.w t0, ft0\n fmadd.s ft1, ft0, %[log2_e], %[shifter]\n fsub.s ft2, ft1, %[shifter]\n"                       \
    "fnmsub.s ft0, ft2, %[ln2_hi], ft0\n sltu t2, %[last], t0\n fnmsub.s ft0, ft2, %[ln2_lo], ft0\n"                  \
    "addi t2, t2, -1\n fmadd.s ft2, %[q4], ft0, %[q3]\n fmv.x.w t0, ft1\n fmadd.s ft2, ft2, ft0, %[q2]\n"             \
    "fmadd.s ft2, ft2, ft0, %[q1]\n slli t0, t0, 23\n fmadd.s ft2, ft2, ft0, %[q0]\n fmul.s ft2, ft2, ft0\n"          \
    "fmadd.s ft0, ft2, ft0, ft0\n fadd.s ft0, %[one], ft0\n fmv.x.w t1, ft0\n add t1, t1, t0\n and t1, t1, t2\n"      \
    "fmv.w.x ft0, t1\n addi t1, t1, -1\n" MIN_UNSIGNED("%[least]", "%[least]", "t1")                                  \
    "fmul.s ft0, ft0, %[small]\n" FSW("ft0", "%[y]", 0) ADD("%[y]", "%[y_step]") "fadd.s %[sum], %[sum], ft0\n"
#define POWER_LENGTH 26

/* Powers of some elements to y, and their sum; `least_` becomes the smallest bit pattern of a power above 0 times 2^SCALE,
 * less one. SHIFT is the text of `shifts` instructions that subtract more than max from ft0. */
#define ADD_POWERS(SHIFT, shifts, sum_, y_, y_step_, x_, step_, count_, max_, log_sum_, least_)                       \
    do {                                                                                                              \
        const exp_terms_t terms = exp_terms_f32();                                                                    \
        __asm__ volatile(LOOP("%[count]", POWER_LENGTH + 3 + shifts) FLW("ft0", "%[x]", 0) ADD("%[x]", "%[step]")     \
                         "fsub.s ft0, ft0, %[max]\n" SHIFT POWER LOOP_END(POWER_LENGTH + 3 + shifts)                  \
                         : [x] "+&r"(x_), [y] "+&r"(y_), [sum] "+&f"(sum_), [least] "+&r"(least_)                     \
                         : [count] "r"(count_), [step] "r"(4 * (step_)), [y_step] "r"(4 * (y_step_)),                 \
                           [max] "f"(max_), [log_sum] "f"(log_sum_), [last] "r"(LAST_POWER),                          \
                           [small] "f"(LITERAL_F32(0x1p-64f)), [log2_e] "f"(terms.log2_e),                            \
                           [shifter] "f"(LARGE_SHIFTER), [ln2_hi] "f"(terms.ln2_hi), [ln2_lo] "f"(terms.ln2_lo),      \
                           [one] "f"(terms.one), [q0] "f"(terms.q0), [q1] "f"(terms.q1), [q2] "f"(terms.q2),          \
                           [q3] "f"(terms.q3), [q4] "f"(terms.q4)                                                     \
                         : "t0", "t1", "t2", "ft0", "ft1", "ft2", "memory");                                          \
    } while (0)

/* The sum of powers of a row, and the bits of the smallest above 0 times 2^SCALE, less one. */
typedef struct {
    float sum;
    uint32_t least;
} powers_t;

/* The powers e^(x - max) of a whole row. */
ROW_POWERS powers_t powers_of(float *y, uint32_t y_step, const float *x, uint32_t step, uint32_t count, float max) {
    const uint32_t size = count > SUM_BLOCK ? SUM_BLOCK : 0;
    uint32_t least = NO_POWER;
    sum_t powers = {0};
    for (uint32_t c = 0; c < count;) {
        const uint32_t part = sum_next(&powers, size, c, count - c);
        float sum = powers.block;
        ADD_POWERS("", 0, sum, y, y_step, x, step, part, max, max, least);
        powers.block = sum;
        c += part;
    }
    return (powers_t){sum_value(&powers, size), least};
}

/* The logarithm of a sum of powers, which is 1 at least, or NaN: logf_f32 without the cases that cannot be. */
ROW_POWERS float log_of_sum(float sum) {
    const uint32_t bits = bits_in_core(sum) + (0x3f800000u - 0x3f3504f3u);
    const float e = (float)((int32_t)(bits >> 23) - 127);
    const float f = float_in_fpu((bits & 0x007fffffu) + 0x3f3504f3u) - LITERAL_F32(1.0f);
    const float s = divided_by(f, divisor_of(LITERAL_F32(2.0f) + f)), s2 = s * s, half = LITERAL_F32(0.5f) * f * f;
    float r = LITERAL_F32(0x1.31e7ecp-2f);
    r = __builtin_fmaf(r, s2, LITERAL_F32(0x1.995e92p-2f));
    r = __builtin_fmaf(r, s2, LITERAL_F32(0x1.55557ap-1f)) * s2;
    const float low = __builtin_fmaf(e, LN2_LO_F32, s * (half + r)) - half;
    return sum == sum ? __builtin_fmaf(e, LN2_HI_F32, f + low) : sum;
}

/* y = x - max - log_sum. */
ROW_POWERS void subtract(float *y, uint32_t y_step, const float *x, uint32_t step, uint32_t count, float max, float log_sum) {
    __asm__ volatile(LOOP("%[count]", 6)
                     FLW("ft0", "%[x]", 0) ADD("%[x]", "%[step]") "fsub.s ft0, ft0, %[max]\n fsub.s ft0, ft0, %[log]\n"
                     FSW("ft0", "%[y]", 0) ADD("%[y]", "%[y_step]") LOOP_END(6)
                     : [x] "+&r"(x), [y] "+&r"(y)
                     : [max] "f"(max), [log] "f"(log_sum), [step] "r"(4 * step), [y_step] "r"(4 * y_step),
                       [count] "r"(count)
                     : "ft0", "memory");
}

#endif
