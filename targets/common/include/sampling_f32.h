/* A token drawn from logits: greedy, by temperature, of the k most likely, of the fewest that have a share p. The draw follows
 * from seed, sequence and position alone. Weights are whole numbers of 2^-40, so that sums have no order and no rounding.
 * It needs no memory beyond the logits, and does not change them. */
#ifndef SAMPLING_F32_H
#define SAMPLING_F32_H

#include "math_f32.h"
#include "philox_f32.h"

#define SAMPLE_ERROR_NAN (-1)    /* a logit is NaN */
#define SAMPLE_ERROR_EMPTY (-2)  /* no logit, or all are minus infinity */
#define SAMPLE_ERROR_OPTION (-3) /* a temperature that is negative, infinite or NaN, a share beyond 0 to 1, too many logits */

#define SAMPLE_UNIT 0x1p+40f /* units of a weight in 1 */
#define SAMPLE_MOST 0x400000u /* logits, so that sums of their weights have 62 bits */
#define SAMPLE_KEY_BITS 32u
#define SAMPLE_DIGIT_BITS 4u
#define SAMPLE_DIGITS 16u /* values of a digit of a key */

/* Logits with the largest of them; `inverse` is 1 / temperature. */
typedef struct {
    const float *logits;
    uint32_t count;
    float largest;
    float inverse;
} sample_row_t;

/* The tokens that may be drawn: those whose key is above `key`, and the first `ties` of those that have it. */
typedef struct {
    uint32_t key;
    uint32_t ties;
} sample_cut_t;

/* Whole numbers in the order of the logits; both zeros have one. */
static inline uint32_t sample_key(float logit) {
    const uint32_t bits = logit == 0.0f ? 0u : bits_of_f32(logit);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/* The logit of a key. */
static inline float sample_logit(uint32_t key) {
    return float_of_bits(key >> 31 ? key & 0x7FFFFFFFu : ~key);
}

/* exp((logit - largest) / temperature) in units of 2^-40, without the digits below. */
static inline uint64_t sample_weight(const sample_row_t *row, float logit) {
    if (logit == row->largest) return (uint64_t)SAMPLE_UNIT; /* also where both are infinite */
    return (uint64_t)(expf_f32((logit - row->largest) * row->inverse) * SAMPLE_UNIT);
}

/* The high half of a product of 128 bits. */
static inline uint64_t sample_high(uint64_t a, uint64_t b) {
    const uint64_t low = (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu), middle = (a >> 32) * (b & 0xFFFFFFFFu) + (low >> 32);
    const uint64_t other = (a & 0xFFFFFFFFu) * (b >> 32) + (middle & 0xFFFFFFFFu);
    return (a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32);
}

/* Whether a token may be drawn; tokens are asked in ascending order, and `ties` counts down. */
static inline int sample_is_kept(uint32_t key, sample_cut_t cut, uint32_t *ties) {
    if (key != cut.key) return key > cut.key;
    if (*ties == 0u) return 0;
    --*ties;
    return 1;
}

/* The sum of the weights of the tokens that may be drawn. */
static inline uint64_t sample_total(const sample_row_t *row, sample_cut_t cut) {
    uint64_t total = 0;
    uint32_t ties = cut.ties;
    for (uint32_t i = 0; i < row->count; i++)
        if (sample_is_kept(sample_key(row->logits[i]), cut, &ties)) total += sample_weight(row, row->logits[i]);
    return total;
}

/* The cut with the fewest tokens, the likely ones first and of equals the first, that are `need` together: as numbers, or as
 * sums of weights if `weighted`. Their last key is found digit by digit from the highest: of the keys that begin with the
 * digits found so far, each next digit has a sum. */
static inline sample_cut_t sample_cut(const sample_row_t *row, sample_cut_t within, uint64_t need, int weighted) {
    uint32_t begin = 0, mask = 0;
    uint64_t above = 0;
    for (uint32_t shift = SAMPLE_KEY_BITS; shift > 0u;) {
        uint64_t sums[SAMPLE_DIGITS] = {0};
        uint32_t ties = within.ties, digit = SAMPLE_DIGITS - 1u;
        shift -= SAMPLE_DIGIT_BITS;
        for (uint32_t i = 0; i < row->count; i++) {
            const uint32_t key = sample_key(row->logits[i]);
            if ((key & mask) != begin || !sample_is_kept(key, within, &ties)) continue;
            sums[(key >> shift) & (SAMPLE_DIGITS - 1u)] += weighted ? sample_weight(row, row->logits[i]) : 1u;
        }
        while (above + sums[digit] < need) above += sums[digit--];
        begin |= digit << shift;
        mask |= (SAMPLE_DIGITS - 1u) << shift;
    }
    const uint64_t each = weighted ? sample_weight(row, sample_logit(begin)) : 1u;
    return (sample_cut_t){begin, (uint32_t)((need - above + each - 1u) / each)};
}

/* The least whole number that is not below a product of a share and a total, and not below 1. */
static inline uint64_t sample_share(float share, uint64_t total) {
    const uint64_t part = (uint64_t)(share * 0x1p+63f), twice = total << 1;
    const uint64_t need = sample_high(part, twice) + (part * twice != 0u);
    return need ? need : 1u;
}

/* The first token whose weight with those before it is above `drawn`, which is below the sum of all. */
static inline uint32_t sample_pick(const sample_row_t *row, sample_cut_t cut, uint64_t drawn) {
    uint64_t sum = 0;
    uint32_t ties = cut.ties, id = 0;
    for (uint32_t i = 0; i < row->count && sum <= drawn; i++) {
        if (!sample_is_kept(sample_key(row->logits[i]), cut, &ties)) continue;
        sum += sample_weight(row, row->logits[i]);
        id = i;
    }
    return id;
}

/* The token with the largest logit, the first of equals, or an error. */
static inline int32_t sample_largest(const float *logits, uint32_t count) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (logits[i] != logits[i]) return SAMPLE_ERROR_NAN;
        if (logits[i] > logits[at]) at = i;
    }
    return count == 0u || logits[at] == -INFINITY_F32 ? SAMPLE_ERROR_EMPTY : (int32_t)at;
}

/* The token drawn for a position of a sequence, or an error. Temperature 0 takes the largest logit, `top_k` 0 or beyond `count`
 * keeps all tokens, and `top_p` 1, too; the share is that of the tokens that `top_k` keeps. */
static inline int32_t sample_f32(const float *logits, uint32_t count, float temperature, uint32_t top_k, float top_p,
                                 uint64_t seed, uint32_t sequence, uint32_t position) {
    if (!(temperature >= 0.0f && temperature < INFINITY_F32 && top_p > 0.0f && top_p <= 1.0f)) return SAMPLE_ERROR_OPTION;
    if (count > SAMPLE_MOST) return SAMPLE_ERROR_OPTION;
    const int32_t likely = sample_largest(logits, count);
    if (likely < 0 || temperature == 0.0f) return likely;
    const sample_row_t row = {logits, count, logits[likely], 1.0f / temperature};
    sample_cut_t cut = {0u, count};
    if (top_k > 0u && top_k < count) cut = sample_cut(&row, cut, top_k, 0);
    uint64_t total = sample_total(&row, cut);
    if (top_p < 1.0f) {
        cut = sample_cut(&row, cut, sample_share(top_p, total), 1);
        total = sample_total(&row, cut);
    }
    uint32_t words[4] = {position, 0u, sequence, 1u};
    philox(words, (uint32_t)seed, (uint32_t)(seed >> 32));
    const uint64_t drawn = sample_high((uint64_t)words[1] << 32 | words[0], total);
    return (int32_t)sample_pick(&row, cut, drawn);
}

#endif
