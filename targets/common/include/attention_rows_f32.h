/* Rows of attention: products of one row, or of a block of rows, with matrices, and the shares of a score.
 *
 * A causal row leaves out what is behind its own key: such terms are zeros, and change no sum but for one of -0, which only
 * underflow makes. Where a result is -0, its row is computed again with all terms. The rows of a block have the terms of the
 * row with most: where one with fewer may show it, by a result of -0 or one that is not finite, it is computed again by itself.
 * With from_first the blocks of a row's sums are counted from the first key that its mask does not hide, and those of sums over
 * queries from the first query that sees a key: what is padded on the left has the bits of what is not.
 * A target with loops of its own for products says HAL_ROWS in its hal_target.h, and has them in an attention_loops.h. */
#ifndef ATTENTION_ROWS_F32_H
#define ATTENTION_ROWS_F32_H

#include "masked_row_f32.h"
#include "product_columns_f32.h"

#define ATTENTION_BLOCK 4u /* rows, and columns, whose sums stay in registers together */

/* Rows a, a + a_m, .. of neighbours, and columns b, b + b_n, .. of elements b_k apart. */
typedef struct {
    const float *a, *b;
    uint32_t a_m, b_k, b_n;
} factors_t;

/* The numbers of some queries, a step apart each. */
typedef struct {
    const float *mask, *stats, *dot;
    uint32_t mask_next, stats_next, dot_next;
    float alpha;
} scores_t;

#ifdef HAL_ROWS
#include "attention_loops.h"
#else

/* y[j] = the sum of a[i] b[i, j] over `count` i, for j below n. */
static inline void product_row(float *y, uint32_t n, const float *a, const float *b, uint32_t b_k, uint32_t b_n,
                               uint32_t count) {
    const columns_t columns = {count, 1, b_k, b_n, 1, 0};
    uint32_t j = 0;
    for (; j + FOUR <= n; j += FOUR) column_sums(&columns, a, b + j * b_n, y + j);
    for (; j < n; j++) column_sum(&columns, a, b + j * b_n, y + j);
}

/* The sums with the products of `count` a[i] and four b[i, j] more. */
static inline four_t add_products(four_t sums, const float *a, const float *b, uint32_t b_k, uint32_t count) {
    for (uint32_t i = 0; i < count; i++, b += b_k) sums = four_fma(a[i], b, 1, sums);
    return sums;
}

/* A block of sums in four rows of y, y_m apart: `count` products from zero or, where it continues, from those in y. */
static inline void block_products(float *y, uint32_t y_m, const factors_t *p, uint32_t count, uint32_t continues) {
    const float *a0 = p->a, *a1 = a0 + p->a_m, *a2 = a1 + p->a_m, *a3 = a2 + p->a_m, *b = p->b;
    const uint32_t b_k = p->b_k, b_n = p->b_n;
    four_t s0 = four_zero(), s1 = s0, s2 = s0, s3 = s0;
    if (continues) s0 = four_load(y, 1), s1 = four_load(y + y_m, 1), s2 = four_load(y + 2 * y_m, 1), s3 = four_load(y + 3 * y_m, 1);
    for (uint32_t i = 0; i < count; i++, b += b_k) {
        const float column[FOUR] = {b[0], b[b_n], b[2 * b_n], b[3 * b_n]};
        s0 = four_fma(a0[i], column, 1, s0), s1 = four_fma(a1[i], column, 1, s1);
        s2 = four_fma(a2[i], column, 1, s2), s3 = four_fma(a3[i], column, 1, s3);
    }
    four_store(y, 1, s0), four_store(y + y_m, 1, s1), four_store(y + 2 * y_m, 1, s2), four_store(y + 3 * y_m, 1, s3);
}

/* Rows of products of one key each, `length` apart, with some queries become shares: s = alpha x + mask, e^(s - max) / sum; what
 * is in slopes becomes the gradient of each score. The mask, of which neighbours are of neighbouring keys, may be absent. */
static inline void score_columns(const scores_t *p, float *shares, float *slopes, uint32_t rows, uint32_t length, uint32_t count) {
    const float *mask = p->mask, *stats = p->stats, *dot = p->dot;
    for (uint32_t t = 0; t < count; t++, stats += p->stats_next, dot += p->dot_next) {
        float *share = shares + t, *slope = slopes + t;
        for (uint32_t m = 0; m < rows; m++, share += length, slope += length) {
            const float scaled = *share * p->alpha, score = mask ? scaled + mask[m] : scaled;
            *share = stats[1] == 0.0f ? 0.0f : expf_f32(score - stats[0]) / stats[1];
            *slope = *share * (*slope - *dot) * p->alpha;
        }
        if (mask) mask += p->mask_next;
    }
}

/* The sum with `count` products more. */
static inline float add_dot(float sum, const float *a, const float *b, uint32_t count) {
    for (uint32_t j = 0; j < count; j++) sum = __builtin_fmaf(a[j], b[j], sum);
    return sum;
}

/* The gradients of a row of scores from its shares and the gradients of those. */
static inline void slope_row(float *shares, const float *slopes, float dot, float alpha, uint32_t count) {
    for (uint32_t j = 0; j < count; j++) shares[j] = shares[j] * (slopes[j] - dot) * alpha;
}

/* Whether no element is -0, or not finite; one that is +0 may count as such, too. */
static inline uint32_t is_plain(const float *y, uint32_t count) {
    for (uint32_t j = 0; j < count; j++)
        if ((y[j] == 0.0f && __builtin_signbit(y[j])) || !__builtin_isfinite(y[j])) return 0;
    return 1;
}

#endif

/* Terms of a sum: `rows` of them in each of some groups, of which each leaves out the first `skipped`; steps of the first factor
 * and of the second. */
typedef struct {
    uint32_t groups, rows, skipped, group_length, group_step, row_step;
} terms_t;

/* A complete block of sums is added to the total in y, which the first of them is. */
static inline void add_block(float *y, uint32_t y_m, const float *block) {
    for (uint32_t m = 0; m < ATTENTION_BLOCK; m++, y += y_m, block += ATTENTION_BLOCK)
        y[0] += block[0], y[1] += block[1], y[2] += block[2], y[3] += block[3];
}

/* y[m, j] = the sum of a[m, i] b[i, j] over all terms i, for ATTENTION_BLOCK rows m, y_m and a_m apart, and j below n, which is
 * at least as many. Blocks of columns overlap where n is no multiple. */
static __attribute__((noinline)) void product_rows(float *y, uint32_t y_m, uint32_t n, const terms_t *p, const float *a,
                                                   uint32_t a_m, const float *b, uint32_t b_n) {
    if (p->groups == 1 && p->rows <= PRODUCTS_BLOCK && p->skipped < p->rows) { /* a block of products each, as most are */
        factors_t factors = {a + p->skipped, b + p->skipped * p->row_step, a_m, p->row_step, b_n};
        const uint32_t count = p->rows - p->skipped;
        for (uint32_t left = n;;) {
            block_products(y, y_m, &factors, count, 0);
            if (left == ATTENTION_BLOCK) return;
            const uint32_t next = hal_min(left - ATTENTION_BLOCK, ATTENTION_BLOCK);
            factors.b += next * b_n, y += next, left -= next;
        }
    }
    float block[ATTENTION_BLOCK * ATTENTION_BLOCK];
    for (uint32_t j = 0; j < n; j += ATTENTION_BLOCK) {
        if (j + ATTENTION_BLOCK > n) j = n - ATTENTION_BLOCK;
        float *to = y + j;
        uint32_t to_m = y_m, i = p->skipped, t = i, continues = 0, end = PRODUCTS_BLOCK;
        factors_t factors = {0, 0, a_m, p->row_step, b_n};
        const float *row = a, *group = b + j * b_n;
        for (uint32_t left = p->groups;;) {
            while (i >= end) {
                if (continues && to == block) add_block(y + j, y_m, block);
                if (continues) to = block, to_m = ATTENTION_BLOCK, continues = 0;
                end += PRODUCTS_BLOCK;
            }
            const uint32_t count = hal_min(p->rows - t, end - i);
            if (count > 0) {
                factors.a = row + t, factors.b = group + t * p->row_step;
                block_products(to, to_m, &factors, count, continues);
                continues = 1, i += count, t += count;
            }
            if (t < p->rows) continue;
            if (--left == 0) break;
            t = p->skipped, i += t, row += p->group_length, group += p->group_step;
        }
        if (continues && to == block) add_block(y + j, y_m, block);
        if (!continues && to != block)
            for (uint32_t m = 0; m < ATTENTION_BLOCK; m++) fill_line_f32(y + j + m * y_m, 0.0f, ATTENTION_BLOCK);
    }
}

static inline uint32_t has_negative_zero(const float *y, uint32_t count) {
    for (uint32_t j = 0; j < count; j++)
        if (y[j] == 0.0f && __builtin_signbit(y[j])) return 1;
    return 0;
}

/* The keys of a row that its mask leaves between the hidden ones at both ends, of those it sees; one at least. */
typedef struct {
    uint32_t first, end;
} keys_t;

static inline keys_t keys_of(const float *mask, uint32_t seen) {
    keys_t keys = {0, seen};
    if (!mask) return keys;
    while (keys.end > 1 && mask[keys.end - 1] == -__builtin_inff()) keys.end--;
    while (keys.first + 1 < keys.end && mask[keys.first] == -__builtin_inff()) keys.first++;
    return keys;
}

/* Cores that work: each has a row, or a block of rows. */
static inline uint32_t working_cores(uint32_t workers) {
    return hal_min(hal_core_count(), workers);
}

/* Work on heads of `rows` rows each: blocks of rows, where a core has room for one, then the rows that are left. */
typedef struct {
    uint32_t heads, blocks, single, count;
} pieces_t;

/* The first row of a piece, and whether it is a block; there is none where its head is no head. */
typedef struct {
    uint32_t head, first, is_block;
} piece_t;

static inline pieces_t pieces_of(uint32_t heads, uint32_t rows, uint32_t each) {
    const uint32_t blocks = each == ATTENTION_BLOCK ? rows / ATTENTION_BLOCK : 0, single = rows - blocks * ATTENTION_BLOCK;
    return (pieces_t){heads, blocks, single, heads * (blocks + single)};
}

/* The piece of a core in a round. Every other round goes back: causal rows are longer, or shorter, one after the other. */
static inline piece_t piece_at(const pieces_t *p, uint32_t round, uint32_t cores) {
    uint32_t i = round * cores + (round & 1 ? cores - 1 - hal_core_id() : hal_core_id());
    if (i >= p->count) return (piece_t){p->heads, 0, 0};
    if (i < p->heads * p->blocks) return (piece_t){i / p->blocks, i % p->blocks * ATTENTION_BLOCK, 1};
    i -= p->heads * p->blocks;
    return (piece_t){i / p->single, p->blocks * ATTENTION_BLOCK + i % p->single, 0};
}

/* Rows are left as zeros, whatever computed in them. */
static inline void clear_rows(float *rows, uint32_t length, uint32_t workers) {
    const uint32_t cores = working_cores(workers);
    for (uint32_t row = hal_core_id(); row < workers; row += cores) fill_line_f32(rows + row * length, 0.0f, length);
}

#endif
