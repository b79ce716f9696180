/* Whether this machine, with these flags and this library, computes as the kernels need: a multiplication and an addition
 * with one rounding, and numbers too small for a normal float kept. Where it does not, results would differ in bits. */
#ifndef EXACT_F32_H
#define EXACT_F32_H

#include <stdint.h>

/* Each has another result with two roundings: of the product, or of the sum to double first; or with small numbers as 0.
 * Products are of integers that float holds, (2^36 + 1) = 4097 * 16773121 and (2^36 - 1) = 262143 * 262145. */
static const struct {
    float x, y, z, exact;
} exact_cases[] = {
    {0x1.001p0f, 0x1.001p0f, -0x1.002p0f, 0x1p-24f},
    {0x1.001p0f, 0x1.001p0f, 0x1p-24f, 0x1.002002p0f},
    {4097.0f * 0x1p-30f, 16773121.0f * 0x1p-30f, 1.0f, 0x1.000002p0f},
    {262143.0f * 0x1p-30f, 262145.0f * 0x1p-30f, 0x1.000002p0f, 0x1.000002p0f},
    {-4097.0f * 0x1p-30f, 16773121.0f * 0x1p-30f, -1.0f, -0x1.000002p0f},
    {4097.0f * 0x1p-93f, 16773121.0f * 0x1p-93f, 0x1p-127f, 0x1.000004p-127f},
    {0x1p-75f, 0x1.8p-74f, 0x1p-149f, 0x1p-148f},
    {0x1p-140f, 0x1p0f, -0x1p-141f, 0x1p-141f},
    {0x1.fffffep127f, 2.0f, -0x1.fffffep127f, 0x1.fffffep127f},
};

/* fmaf of x, y and z is `found`, and rounded once it is `exact`; all as bits. */
typedef struct {
    uint32_t x, y, z, found, exact;
} exact_fault_t;

static inline uint32_t exact_bits(float value) {
    uint32_t word;
    __builtin_memcpy(&word, &value, sizeof(word));
    return word;
}

/* The instructions that the program is built for and the processor lacks; null where it has them. */
static inline const char *exact_lacking(void) {
#if defined(__x86_64__) || defined(__i386__)
#ifdef __FMA__
    if (!__builtin_cpu_supports("fma")) return "FMA";
#endif
#ifdef __AVX2__
    if (!__builtin_cpu_supports("avx2")) return "AVX2";
#endif
#endif
    return 0;
}

/* Finds a case that comes out wrong; returns whether there is one. */
static inline int exact_fault(exact_fault_t *fault) {
    for (uint32_t i = 0; i < sizeof exact_cases / sizeof *exact_cases; i++) {
        const volatile float x = exact_cases[i].x, y = exact_cases[i].y, z = exact_cases[i].z; /* unknown to the compiler */
        *fault = (exact_fault_t){exact_bits(x), exact_bits(y), exact_bits(z), exact_bits(__builtin_fmaf(x, y, z)),
                                 exact_bits(exact_cases[i].exact)};
        if (fault->found != fault->exact) return 1;
    }
    return 0;
}

#endif
