/* A float32 is m 2^e, and 2^-k = 5^k 10^-k: its decimal digits, at most 112, are those of one integer, exactly. */
#include "format.h"

#define LIMBS 29 /* base 10^4, least first: m 5^149 has 112 digits */
#define LIMB_DIGITS 4

typedef struct {
    uint32_t limb[LIMBS], count;
} big_t;

typedef struct {
    char digit[LIMBS * LIMB_DIGITS]; /* '0'..'9', the first not '0' unless the value is zero */
    uint32_t count;
    int32_t exponent; /* of the first digit */
} decimal_t;

/* factor <= 2^16: the products fit 32 bits. */
static void multiply_add(big_t *big, uint32_t factor, uint32_t carry) {
    for (uint32_t i = 0; i < big->count; i++) {
        const uint32_t product = big->limb[i] * factor + carry;
        big->limb[i] = product % 10000;
        carry = product / 10000;
    }
    for (; carry; carry /= 10000) big->limb[big->count++] = carry % 10000;
}

static big_t from_u64(uint64_t value) {
    big_t big = {.count = 0};
    for (int32_t shift = 48; shift >= 0; shift -= 16) multiply_add(&big, 65536, (uint32_t)(value >> shift) & 0xffff);
    return big;
}

static void to_decimal(decimal_t *decimal, const big_t *big) {
    decimal->count = 0;
    for (uint32_t i = big->count; i-- > 0;)
        for (uint32_t unit = 1000; unit; unit /= 10) {
            const uint32_t digit = big->limb[i] / unit % 10;
            if (digit || decimal->count) decimal->digit[decimal->count++] = (char)('0' + digit);
        }
    if (!decimal->count) decimal->digit[decimal->count++] = '0';
    decimal->exponent = (int32_t)decimal->count - 1;
}

static void float_digits(decimal_t *decimal, uint32_t bits) {
    const uint32_t biased = bits >> 23 & 0xff, fraction = bits & 0x7fffff;
    int32_t exponent = (int32_t)(biased ? biased : 1) - 150;
    big_t big = from_u64(biased ? fraction | 0x800000 : fraction);
    if (!big.count) exponent = 0; /* zero is 0e+00 */
    for (int32_t i = 0; i < exponent; i++) multiply_add(&big, 2, 0);
    for (int32_t i = exponent; i < 0; i++) multiply_add(&big, 5, 0);
    to_decimal(decimal, &big);
    if (exponent < 0) decimal->exponent += exponent;
}

static uint32_t rounds_up(const decimal_t *decimal, uint32_t digits) {
    if (decimal->count <= digits || decimal->digit[digits] < '5') return 0;
    if (decimal->digit[digits] > '5') return 1;
    for (uint32_t i = digits + 1; i < decimal->count; i++)
        if (decimal->digit[i] != '0') return 1;
    return (decimal->digit[digits - 1] & 1) != 0; /* half way: to even */
}

/* Leaves exactly `digits` digits. */
static void round_to(decimal_t *decimal, uint32_t digits) {
    const uint32_t up = rounds_up(decimal, digits);
    while (decimal->count < digits) decimal->digit[decimal->count++] = '0';
    decimal->count = digits;
    if (!up) return;
    uint32_t i = digits;
    while (i > 0 && decimal->digit[i - 1] == '9') decimal->digit[--i] = '0';
    if (i > 0) {
        decimal->digit[i - 1]++;
        return;
    }
    decimal->digit[0] = '1'; /* 9.99 became 10.0: the other digits are 0 already */
    decimal->exponent++;
}

static char *put(char *text, const char *from, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) *text++ = from[i];
    return text;
}

static char *put_exponent(char *text, int32_t exponent) {
    const uint32_t size = (uint32_t)(exponent < 0 ? -exponent : exponent); /* at most 45: two digits */
    *text++ = 'e';
    *text++ = exponent < 0 ? '-' : '+';
    *text++ = (char)('0' + size / 10);
    *text++ = (char)('0' + size % 10);
    return text;
}

static char *put_scientific(char *text, const decimal_t *decimal) {
    *text++ = decimal->digit[0];
    if (decimal->count > 1) *text++ = '.';
    text = put(text, decimal->digit + 1, decimal->count - 1);
    return put_exponent(text, decimal->exponent);
}

static char *put_fixed(char *text, const decimal_t *decimal) {
    if (decimal->exponent < 0) {
        text = put(text, "0.000", (uint32_t)(1 - decimal->exponent));
        return put(text, decimal->digit, decimal->count);
    }
    const uint32_t whole = (uint32_t)decimal->exponent + 1;
    for (uint32_t i = 0; i < whole; i++) *text++ = i < decimal->count ? decimal->digit[i] : '0';
    if (decimal->count <= whole) return text;
    *text++ = '.';
    return put(text, decimal->digit + whole, decimal->count - whole);
}

/* Writes the sign; returns 1 where nothing but inf or nan is to be written, and writes that. */
static uint32_t put_special(char **text, uint32_t bits) {
    const uint32_t magnitude = bits & 0x7fffffff;
    if (bits >> 31 && magnitude <= 0x7f800000) *(*text)++ = '-';
    if (magnitude < 0x7f800000) return 0;
    *text = put(*text, magnitude == 0x7f800000 ? "inf" : "nan", 3);
    return 1;
}

static uint32_t bits_of(float value) {
    const union {
        float value;
        uint32_t bits;
    } both = {.value = value};
    return both.bits;
}

static uint32_t terminate(char *end, const char *text) {
    *end = '\0';
    return (uint32_t)(end - text);
}

uint32_t format_f32(char *text, float value) {
    const uint32_t bits = bits_of(value);
    char *end = text;
    decimal_t decimal;
    if (put_special(&end, bits)) return terminate(end, text);
    float_digits(&decimal, bits);
    round_to(&decimal, 9);
    while (decimal.count > 1 && decimal.digit[decimal.count - 1] == '0') decimal.count--;
    const uint32_t fixed = decimal.exponent >= -4 && decimal.exponent < 9;
    return terminate(fixed ? put_fixed(end, &decimal) : put_scientific(end, &decimal), text);
}

uint32_t format_e6(char *text, float value) {
    const uint32_t bits = bits_of(value);
    char *end = text;
    decimal_t decimal;
    if (put_special(&end, bits)) return terminate(end, text);
    float_digits(&decimal, bits);
    round_to(&decimal, 7);
    return terminate(put_scientific(end, &decimal), text);
}

uint32_t format_u64(char *text, uint64_t value) {
    const big_t big = from_u64(value);
    decimal_t decimal;
    to_decimal(&decimal, &big);
    return terminate(put(text, decimal.digit, decimal.count), text);
}
