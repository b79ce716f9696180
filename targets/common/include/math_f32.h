/* exp, log, erf, tanh, pow, 1 / sqrt and what follows from them in float32 alone: the same bits on every IEEE machine that
 * has fused multiply-add.
 *
 * At most 2 ulp against the exact value over all floats (pow: 3 ulp), subnormal results included; infinities and NaN as
 * C's Annex F has them. Polynomials are minimax fits of the relative error (Lawson's iteration, rounded to float32). */
#ifndef MATH_F32_H
#define MATH_F32_H

#include <stdint.h>

#include "quotient_f32.h"

/* A target whose constants lie in slow memory may define another way to them. */
#ifndef LITERAL_F32
#define LITERAL_F32(x) (x)
#endif

#define INFINITY_F32 __builtin_inff()
#define NAN_F32 __builtin_nanf("")
#define LOG2_E_F32 LITERAL_F32(0x1.715476p+0f)
/* ln 2 in two parts; the first has 15 bits, so that its product with an exponent is exact. */
#define LN2_HI_F32 LITERAL_F32(0x1.62e4p-1f)
#define LN2_LO_F32 LITERAL_F32(0x1.7f7d1cp-20f)

typedef union {
    float value;
    uint32_t bits;
} float_bits_t;

static inline uint32_t bits_of_f32(float x) {
    return ((float_bits_t){.value = x}).bits;
}

static inline float float_of_bits(uint32_t bits) {
    return ((float_bits_t){.bits = bits}).value;
}

/* 2^n for -126 <= n <= 127. */
static inline float exp2i_f32(int32_t n) {
    return float_of_bits((uint32_t)(n + 127) << 23);
}

/* The constants of e^x. A kernel whose loop has registers for them fetches them once. */
typedef struct {
    float log2_e, shifter, ln2_hi, ln2_lo, one, q0, q1, q2, q3, q4;
} exp_terms_t;

static inline exp_terms_t exp_terms_f32(void) {
    return (exp_terms_t){
        LOG2_E_F32, LITERAL_F32(0x1.8p+23f), LN2_HI_F32, LN2_LO_F32, LITERAL_F32(1.0f),
        LITERAL_F32(0x1.fffffcp-2f), LITERAL_F32(0x1.55549p-3f), LITERAL_F32(0x1.5558f4p-5f),
        LITERAL_F32(0x1.123a6cp-7f), LITERAL_F32(0x1.6a2352p-10f),
    };
}

/* r = x - rounded ln 2 for a whole number `rounded`. */
static inline float exp_rest_f32(float x, float rounded, exp_terms_t t) {
    return __builtin_fmaf(-rounded, t.ln2_lo, __builtin_fmaf(-rounded, t.ln2_hi, x));
}

/* e^r - 1 = r + r^2 Q(r), for |r| up to ln 2 / 2. */
static inline float exp_growth_f32(float r, exp_terms_t t) {
    float q = __builtin_fmaf(t.q4, r, t.q3);
    q = __builtin_fmaf(q, r, t.q2);
    q = __builtin_fmaf(q, r, t.q1);
    q = __builtin_fmaf(q, r, t.q0);
    return __builtin_fmaf(q * r, r, r);
}

/* exp(x + tail) for a tail far smaller than x, x in [-104, 89], with n = round(x / ln 2). The result is scaled twice, so
 * that only the last product rounds where it is subnormal. */
static inline float exp_sum_f32(float x, float tail) {
    const exp_terms_t t = exp_terms_f32();
    const float rounded = __builtin_fmaf(x, t.log2_e, t.shifter) - t.shifter;
    const int32_t n = (int32_t)rounded;
    const float y = t.one + exp_growth_f32(exp_rest_f32(x, rounded, t) + tail, t);
    const int32_t half = n / 2;
    return y * exp2i_f32(half) * exp2i_f32(n - half);
}

static inline float expf_f32(float x) {
    if (x != x) return x;
    if (x > LITERAL_F32(89.0f)) return INFINITY_F32;
    if (x < -LITERAL_F32(104.0f)) return 0.0f;
    return exp_sum_f32(x, 0.0f);
}

/* Splits a positive finite x into 2^exponent * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); returns f. */
static inline float split_f32(float x, int32_t *exponent) {
    int32_t shift = 0;
    if (x < LITERAL_F32(0x1p-126f)) {
        x *= LITERAL_F32(0x1p+25f);
        shift = -25;
    }
    const uint32_t bits = bits_of_f32(x) + (0x3f800000u - 0x3f3504f3u);
    *exponent = (int32_t)(bits >> 23) - 127 + shift;
    return float_of_bits((bits & 0x007fffffu) + 0x3f3504f3u) - LITERAL_F32(1.0f);
}

/* With s = f / (2 + f): log(1 + f) = 2 s + s R(s^2) = f - (f^2/2 - s (f^2/2 + R)), whose leading term is exact. */
static inline float logf_f32(float x) {
    if (x != x || x == INFINITY_F32) return x;
    if (x <= 0.0f) return x == 0.0f ? -INFINITY_F32 : NAN_F32;
    int32_t exponent;
    const float f = split_f32(x, &exponent), e = (float)exponent;
    const float s = QUOTIENT_F32(f, LITERAL_F32(2.0f) + f), s2 = s * s, half = LITERAL_F32(0.5f) * f * f;
    float r = LITERAL_F32(0x1.31e7ecp-2f);
    r = __builtin_fmaf(r, s2, LITERAL_F32(0x1.995e92p-2f));
    r = __builtin_fmaf(r, s2, LITERAL_F32(0x1.55557ap-1f)) * s2;
    const float low = __builtin_fmaf(e, LN2_LO_F32, s * (half + r)) - half;
    return __builtin_fmaf(e, LN2_HI_F32, f + low);
}

/* e^x - 1 = 2^n (e^r - 1) + (2^n - 1) with n = round(x / ln 2). */
static inline float expm1f_f32(float x) {
    if (x > 18.0f) return expf_f32(x); /* where the 1 is less than half of the last place */
    if (x < -18.0f) return -1.0f;
    if (x == 0.0f) return x;
    const exp_terms_t t = exp_terms_f32();
    const float rounded = __builtin_fmaf(x, t.log2_e, t.shifter) - t.shifter;
    const float growth = exp_growth_f32(exp_rest_f32(x, rounded, t), t);
    if (x != x) return x;
    const float scale = exp2i_f32((int32_t)rounded);
    return __builtin_fmaf(scale, growth, scale - 1.0f);
}

/* log(1 + x): near 0 f is x itself; elsewhere 1 + x is rounded, and what that lost is added as a part of it. */
static inline float log1pf_f32(float x) {
    if (x != x || x == INFINITY_F32 || x == 0.0f) return x;
    if (x <= -1.0f) return x == -1.0f ? -INFINITY_F32 : NAN_F32;
    int32_t exponent = 0;
    float f = x, lost = 0.0f;
    if (x < -0x1.2bec34p-2f || x > 0x1.a8279ap-2f) {
        const float sum = 1.0f + x;
        f = split_f32(sum, &exponent);
        lost = QUOTIENT_F32(x < 1.0f ? x - (sum - 1.0f) : 1.0f - (sum - x), sum);
    }
    const float s = QUOTIENT_F32(f, LITERAL_F32(2.0f) + f), s2 = s * s, half = LITERAL_F32(0.5f) * f * f, e = (float)exponent;
    float r = LITERAL_F32(0x1.31e7ecp-2f);
    r = __builtin_fmaf(r, s2, LITERAL_F32(0x1.995e92p-2f));
    r = __builtin_fmaf(r, s2, LITERAL_F32(0x1.55557ap-1f)) * s2;
    const float low = __builtin_fmaf(e, LN2_LO_F32, __builtin_fmaf(s, half + r, lost)) - half;
    return __builtin_fmaf(e, LN2_HI_F32, f + low);
}

/* 1 / (1 + e^-x), for negative x as e^x / (1 + e^x): no power overflows, and small results keep their digits. */
static inline float sigmoidf_f32(float x) {
    const float power = expf_f32(-__builtin_fabsf(x));
    return QUOTIENT_F32(x < 0.0f ? power : 1.0f, 1.0f + power);
}

/* log(1 + e^x) = max(x, 0) + log(1 + e^-|x|). */
static inline float softplusf_f32(float x) {
    const float rest = log1pf_f32(expf_f32(-__builtin_fabsf(x)));
    return x > 0.0f ? x + rest : rest;
}

/* The constants of erf below 1, and from there on. */
typedef struct {
    float p0, p1, p2, p3, p4, p5, p6;
} erf_terms_t;

static inline erf_terms_t erf_near_terms_f32(void) {
    return (erf_terms_t){
        LITERAL_F32(0x1.06eba8p-3f), LITERAL_F32(-0x1.81273ep-2f), LITERAL_F32(0x1.ce2cf8p-4f), LITERAL_F32(-0x1.b7f90ep-6f),
        LITERAL_F32(0x1.5405b8p-8f), LITERAL_F32(-0x1.a3f724p-11f), LITERAL_F32(0x1.496a8ap-14f),
    };
}

static inline erf_terms_t erf_far_terms_f32(void) {
    return (erf_terms_t){
        LITERAL_F32(0x1.661c02p-12f), LITERAL_F32(0x1.2088ecp+0f), LITERAL_F32(0x1.46baeap-1f), LITERAL_F32(0x1.a6534ap-4f),
        LITERAL_F32(-0x1.65cb84p-6f), LITERAL_F32(0x1.825b12p-9f), LITERAL_F32(-0x1.86ddaep-13f),
    };
}

/* Their polynomial. */
static inline float erf_sum_f32(float x, erf_terms_t t) {
    float p = __builtin_fmaf(t.p6, x, t.p5);
    p = __builtin_fmaf(p, x, t.p4);
    p = __builtin_fmaf(p, x, t.p3);
    p = __builtin_fmaf(p, x, t.p2);
    p = __builtin_fmaf(p, x, t.p1);
    return __builtin_fmaf(p, x, t.p0);
}

/* x + x P(x^2) below 1; 1 - exp(-Q(x)) from there on, where the error of the exponential is damped by erfc. */
static inline float erff_f32(float x) {
    if (x != x) return x;
    const float a = __builtin_fabsf(x);
    if (a < 1.0f) return __builtin_fmaf(x, erf_sum_f32(x * x, erf_near_terms_f32()), x);
    const float y = a < 4.0f ? 1.0f - expf_f32(-erf_sum_f32(a, erf_far_terms_f32())) : 1.0f;
    return __builtin_copysignf(y, x);
}

/* x + x^3 P(x^2) near 0; 1 - 2 / (exp(2|x|) + 1) from 0.625 on. */
static inline float tanhf_f32(float x) {
    if (x != x) return x;
    const float a = __builtin_fabsf(x);
    if (a < 0.625f) {
        const float x2 = x * x;
        float p = -0x1.73640ep-8f;
        p = __builtin_fmaf(p, x2, 0x1.519c9p-6f);
        p = __builtin_fmaf(p, x2, -0x1.b827fep-5f);
        p = __builtin_fmaf(p, x2, 0x1.110692p-3f);
        p = __builtin_fmaf(p, x2, -0x1.55553p-2f);
        return __builtin_copysignf(__builtin_fmaf(x * x2, p, x), x); /* the sum of zeros would be +0 */
    }
    const float y = a < 10.0f ? 1.0f - QUOTIENT_F32(2.0f, expf_f32(2.0f * a) + 1.0f) : 1.0f;
    return __builtin_copysignf(y, x);
}

/* x^y for positive finite x and finite y: log(x) as high + low from s = f / (2 + f) with its remainder, the product
 * with y as high + low, then exp of the sum. */
static inline float pow_positive_f32(float x, float y) {
    int32_t exponent;
    const float f = split_f32(x, &exponent), e = (float)exponent;
    const float t = 2.0f + f, t_low = f - (t - 2.0f);
    const float s = QUOTIENT_F32(f, t), s_low = QUOTIENT_F32(__builtin_fmaf(-s, t, f) - s * t_low, t);
    const float s2 = s * s;
    float r = 0x1.e301b2p-3f;
    r = __builtin_fmaf(r, s2, 0x1.243894p-2f);
    r = __builtin_fmaf(r, s2, 0x1.999a7cp-2f);
    r = __builtin_fmaf(r, s2, 0x1.555554p-1f) * s2;
    const float head = e * LN2_HI_F32, twice = 2.0f * s;
    const float sum = head + twice, sum_low = e != 0.0f ? twice - (sum - head) : 0.0f;
    const float rest = __builtin_fmaf(e, LN2_LO_F32, __builtin_fmaf(s, r, __builtin_fmaf(2.0f, s_low, sum_low)));
    const float high = sum + rest, low = rest - (high - sum);
    const float product = y * high;
    if (product > 89.0f) return INFINITY_F32;
    if (product < -104.0f) return 0.0f;
    return exp_sum_f32(product, __builtin_fmaf(y, low, __builtin_fmaf(y, high, -product)));
}

/* A step towards 1 / sqrt(x) from y: y (1 + r / 2 + 3 r^2 / 8) with r = 1 - x y^2, whose error is of the third order. */
static inline float rsqrt_step_f32(float x, float y) {
    const float r = __builtin_fmaf(-(x * y), y, LITERAL_F32(1.0f));
    return __builtin_fmaf(y * r, __builtin_fmaf(LITERAL_F32(0.375f), r, LITERAL_F32(0.5f)), y);
}

/* 1 / sqrt(x), within 1 ulp where x is normal: from half the exponent (off by less than 3.5 %; the constant is Lomont's) in
 * two steps. There is neither a division nor a root, for which a cluster's cores may have to queue, but in rare cases. */
static inline float rsqrt_f32(float x) {
    const uint32_t bits = bits_of_f32(x);
    if (__builtin_expect(bits - 0x00800000u >= 0x7f000000u, 0)) return LITERAL_F32(1.0f) / __builtin_sqrtf(x);
    const float start = LITERAL_F32(float_of_bits(0x5f375a86u - (bits >> 1))); /* in a register for floats at once */
    return rsqrt_step_f32(x, rsqrt_step_f32(x, start));
}

/* Small integer powers by squaring, halves by the square root, the rest by logarithm; cases as in C's Annex F. */
static inline float powf_f32(float x, float y) {
    if (y == 0.0f || x == 1.0f) return 1.0f;
    if (x != x || y != y) return NAN_F32;
    if (y == 1.0f) return x;
    if (y == -1.0f) return 1.0f / x;
    if (y == 0.5f && x >= 0.0f) return __builtin_sqrtf(x + 0.0f);
    const float a = __builtin_fabsf(x), size = __builtin_fabsf(y);
    const int whole = size >= 0x1p+23f || (float)(int32_t)y == y;
    const int odd = whole && size < 0x1p+24f && ((int32_t)y & 1);
    if (whole && y > 0.0f && y <= 4.0f) {
        float result = odd ? x : 1.0f, square = x;
        for (int32_t n = (int32_t)y >> 1; n > 0; n >>= 1) {
            square *= square;
            if (n & 1) result *= square;
        }
        return result;
    }
    if (size == INFINITY_F32) return a == 1.0f ? 1.0f : (a > 1.0f) == (y > 0.0f) ? INFINITY_F32 : 0.0f;
    float result;
    if (a == 0.0f || a == INFINITY_F32)
        result = (a == 0.0f) == (y > 0.0f) ? 0.0f : INFINITY_F32;
    else if (x < 0.0f && !whole)
        return NAN_F32;
    else
        result = pow_positive_f32(a, y);
    return x < 0.0f || (x == 0.0f && (bits_of_f32(x) >> 31)) ? (odd ? -result : result) : result;
}

#endif
