/* Whether a source is compiled with flags by which a compiler may compute otherwise than is written: reassociate sums, multiply
 * by reciprocals, take all numbers for finite, drop the sign of zero, or fuse a product and a sum. Results would differ in
 * bits. Where a compiler says so by a macro, it stops here; where it does not, a function of each source shows it. */
#ifndef EXACT_FLAGS_H
#define EXACT_FLAGS_H

#if defined(__FAST_MATH__) || defined(_M_FP_FAST)
#error "compiled with -ffast-math, results would differ in bits: leave it out for this library, as by -fno-fast-math behind it"
#elif defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error "compiled with -ffinite-math-only, a loss that is no number would go unseen: leave it out for this library"
#elif defined(__ASSOCIATIVE_MATH__)
#error "compiled with -fassociative-math, results would differ in bits: leave it out for this library, or the flag that implies it"
#elif defined(__RECIPROCAL_MATH__)
#error "compiled with -freciprocal-math, results would differ in bits: leave it out for this library, or the flag that implies it"
#elif defined(__NO_SIGNED_ZEROS__)
#error "compiled with -fno-signed-zeros, results would differ in bits: leave it out for this library, or the flag that implies it"
#endif

enum { EXACT_OPERANDS = 6, EXACT_RESULTS = 5 };

/* Defines a function of a source that computes from operands which the compiler does not know, by its flags. */
#define EXACT_FLAGS(function)                                                                                         \
    void function(const volatile float *x, volatile float *y);                                                        \
    void function(const volatile float *x, volatile float *y) {                                                       \
        const float large = x[0], small = x[1], infinite = x[2], zero = x[3], factor = x[4], addend = x[5];           \
        y[0] = (large + small) - large;                                                                               \
        y[1] = small / 3.0f;                                                                                          \
        y[2] = zero + 0.0f;                                                                                           \
        y[3] = factor * factor + addend;                                                                              \
        y[4] = infinite - infinite;                                                                                   \
    }

#endif
