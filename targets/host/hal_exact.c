/* Whether this machine, with these flags and this library, computes as the kernels need: a multiplication and an addition
 * with one rounding, and numbers too small for a normal float kept. Where it does not, results would differ in bits. */
#include "hal_host.h"

#include <string.h>

/* Each has another result with two roundings: of the product, or of the sum to double first; or with small numbers as 0.
 * Products are of integers that float holds, (2^36 + 1) = 4097 * 16773121 and (2^36 - 1) = 262143 * 262145. */
static const volatile struct {
    float x, y, z, exact;
} cases[] = {
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

static uint32_t bits(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof(word));
    return word;
}

void exact_init(void) {
#if (defined(__x86_64__) || defined(__i386__)) && defined(__FMA__)
    if (!__builtin_cpu_supports("fma")) host_unfit("it is built for FMA, which this processor does not have");
#endif
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const float x = cases[i].x, y = cases[i].y, z = cases[i].z;
        const uint32_t found = bits(__builtin_fmaf(x, y, z)), exact = bits(cases[i].exact);
        if (found != exact)
            host_unfit("fmaf of the floats %08x, %08x and %08x is %08x, and rounded once it is %08x", bits(x), bits(y), bits(z),
                       found, exact);
    }
}
