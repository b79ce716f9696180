/* hal_fmaf beside the C library's fmaf, which is exact: triples of all bits, products that nearly cancel, sums that lie
 * half-way between two floats, and small numbers. Prints how many differ, of how many. */
#include "hal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TRIPLES = 10000000, KINDS = 7 };

static uint64_t state = 88172645463325252u;

/* Marsaglia's xorshift. */
static uint32_t drawn(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)state;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The bits with another exponent. */
static float with_exponent(uint32_t bits, uint32_t exponent) {
    return float_of((bits & 0x807fffffu) | (exponent & 0xffu) << 23);
}

int main(void) {
    uint32_t different = 0;
    for (uint32_t i = 0; i < TRIPLES; i++) {
        const uint32_t a = drawn(), b = drawn(), c = drawn();
        float x = float_of(a), y = float_of(b), z = float_of(c);
        switch (i % KINDS) {
        case 0: break;
        case 1: y = with_exponent(b, 254u - (a >> 23 & 0xffu) + (c & 63u) - 31u); break;
        case 2: z = -(x * y); break;
        case 3: z = float_of(bits_of(-(x * y)) + (c & 7u) - 3u); break;
        case 4:
            x = float_of(a & 0xfffff000u);
            y = float_of(b & 0xfffff000u);
            z = with_exponent(c & 0xffffff00u, (bits_of(x * y) >> 23) + c % 60u - 30u);
            break;
        case 5: /* a product of 25 bits, and something that only says on which side of the middle the sum is */
            x = with_exponent(a & 0xfffff800u, 100u + c % 40u);
            y = with_exponent(b & 0xfffff000u, 100u + a % 40u);
            z = with_exponent(c, (bits_of(x * y) >> 23) - 26u - b % 40u);
            break;
        default:
            x = float_of(a & 0x80ffffffu);
            y = with_exponent(b, 100u + c % 50u);
            z = float_of(c & 0x80ffffffu);
        }
        const float exact = fmaf(x, y, z), own = hal_fmaf(x, y, z);
        const int both = isnan(exact) && isnan(own);
        different += !both && bits_of(exact) != bits_of(own);
    }
    printf("%u of %d\n", (unsigned)different, TRIPLES);
    return 0;
}
