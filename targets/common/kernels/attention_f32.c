/* Y = P V of P = softmax(alpha Q K^T + mask), a query, or a block of neighbouring queries, at a time; of each query the largest
 * score and the sum of powers. The sums are those of gemm_f32 and masked_softmax_f32. */
#include "attention_f32.h"
#include "attention_rows_f32.h"
#include "hal.h"

typedef struct {
    const float *q, *k, *v, *mask;
    float *y, *stats;
    uint32_t seen;
} query_t;

static inline query_t query_of(const attention_f32_args_t *p, uint32_t head, uint32_t t) {
    const uint32_t g = head % p->g, h = head / p->g % p->h, b = head / p->g / p->h;
    return (query_t){
        .q = p->q + b * p->q_b + h * p->q_h + g * p->q_g + t * p->q_t,
        .k = p->k + b * p->k_b + h * p->k_h,
        .v = p->v + b * p->v_b + h * p->v_h,
        .mask = p->mask ? p->mask + b * p->mask_b + h * p->mask_h + g * p->mask_g + t * p->mask_t : 0,
        .y = p->y + b * p->y_b + h * p->y_h + g * p->y_g + t * p->y_t,
        .stats = p->stats ? p->stats + b * p->stats_b + h * p->stats_h + g * p->stats_g + t * p->stats_t : 0,
        .seen = p->causal ? hal_min(p->keys, p->start + t + 1) : p->keys,
    };
}

/* The m-th query behind it. */
static inline query_t query_at(const attention_f32_args_t *p, const query_t *x, uint32_t m) {
    return (query_t){
        .q = x->q + m * p->q_t,
        .k = x->k,
        .v = x->v,
        .mask = x->mask ? x->mask + m * p->mask_t : 0,
        .y = x->y + m * p->y_t,
        .stats = x->stats ? x->stats + m * p->stats_t : 0,
        .seen = p->causal ? hal_min(p->keys, x->seen + m) : p->keys,
    };
}

static inline void keep_stats(const query_t *x, row_stats_t stats) {
    if (x->stats) x->stats[0] = stats.max, x->stats[1] = stats.sum;
}

static __attribute__((noinline)) void one_query(const attention_f32_args_t *p, const query_t *x, float *row) {
    const uint32_t keys = p->keys;
    product_row(row, x->seen, x->q, x->k, 1, p->k_s, p->depth);
    keep_stats(x, masked_row(row, row, x->mask, keys, x->seen, p->alpha, p->safe));
    product_row(x->y, p->width, row, x->v, p->v_s, 1, x->seen);
    if (x->seen < keys && has_negative_zero(x->y, p->width)) product_row(x->y, p->width, row, x->v, p->v_s, 1, keys);
}

/* A query and those behind it. */
static inline void some_queries(const attention_f32_args_t *p, const query_t *x, float *rows) {
    const uint32_t keys = p->keys, most = query_at(p, x, ATTENTION_BLOCK - 1).seen;
    product_rows(rows, keys, most, &(const terms_t){1, p->depth, 0, 0, 1}, x->q, p->q_t, x->k, p->k_s);
    for (uint32_t m = 0; m < ATTENTION_BLOCK; m++) {
        const query_t own = query_at(p, x, m);
        float *row = rows + m * keys;
        keep_stats(&own, masked_row(row, row, own.mask, most, own.seen, p->alpha, p->safe));
    }
    product_rows(x->y, p->y_t, p->width, &(const terms_t){1, most, 0, 0, p->v_s}, rows, keys, x->v, 1);
    for (uint32_t m = 0; m < ATTENTION_BLOCK; m++) {
        const query_t own = query_at(p, x, m);
        if (own.seen < keys && !is_plain(own.y, p->width)) one_query(p, &own, rows);
    }
}

void attention_f32(const void *args) {
    const attention_f32_args_t *p = args;
    const uint32_t cores = working_cores(p->workers), length = p->rows_each * p->keys, heads = p->b * p->h * p->g;
    if (hal_core_id() >= cores) return;
    float *rows = p->rows + hal_core_id() * length;
    const pieces_t pieces = pieces_of(heads, p->t, p->rows_each);
    for (uint32_t round = 0; round * cores < pieces.count; round++) {
        const piece_t piece = piece_at(&pieces, round, cores);
        if (piece.head == heads) continue;
        const query_t x = query_of(p, piece.head, piece.first);
        if (piece.is_block)
            some_queries(p, &x, rows);
        else
            one_query(p, &x, rows);
    }
    clear_rows(p->rows, length, p->workers);
}
