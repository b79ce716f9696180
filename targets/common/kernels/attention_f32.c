/* Y = P V of P = softmax(alpha Q K^T + mask), a query, or a block of neighbouring queries, at a time; of each query the largest
 * score and the sum of powers. The sums are those of gemm_f32 and masked_softmax_f32. */
#include "attention_f32.h"
#include "attention_rows_f32.h"
#include "hal.h"

typedef struct {
    const float *q, *k, *v, *mask;
    float *y, *stats;
    uint32_t keys, seen; /* from `k` on */
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
        .keys = p->keys,
        .seen = p->causal ? hal_min(p->keys, p->start + t + 1) : p->keys,
    };
}

/* The m-th query behind it, without what its mask hides at both ends. */
static inline query_t query_at(const attention_f32_args_t *p, const query_t *x, uint32_t m) {
    query_t own = *x;
    own.q += m * p->q_t, own.y += m * p->y_t;
    if (own.stats) own.stats += m * p->stats_t;
    if (p->causal) own.seen = hal_min(p->keys, own.seen + m);
    if (!own.mask) return own;
    own.mask += m * p->mask_t;
    if (!p->safe) return own;
    const keys_t keys = keys_of(own.mask, own.seen);
    const uint32_t first = p->from_first ? keys.first : 0;
    own.k += first * p->k_s, own.v += first * p->v_s, own.mask += first, own.keys -= first, own.seen = keys.end - first;
    return own;
}

static inline void keep_stats(const query_t *x, row_stats_t stats) {
    if (x->stats) x->stats[0] = stats.max, x->stats[1] = stats.sum;
}

static __attribute__((noinline)) void one_query(const attention_f32_args_t *p, const query_t *x, float *row) {
    product_row(row, x->seen, x->q, x->k, 1, p->k_s, p->depth);
    keep_stats(x, masked_row(row, row, x->mask, x->keys, x->seen, p->alpha, p->safe));
    product_row(x->y, p->width, row, x->v, p->v_s, 1, x->seen);
    if (x->seen < x->keys && has_negative_zero(x->y, p->width)) product_row(x->y, p->width, row, x->v, p->v_s, 1, x->keys);
}

/* A block of queries, which have their first key in common. */
static inline void some_queries(const attention_f32_args_t *p, const query_t *x, uint32_t most, float *rows) {
    product_rows(rows, p->keys, most, &(const terms_t){1, p->depth, 0, 0, 0, 1}, x->q, p->q_t, x->k, p->k_s);
    for (uint32_t m = 0; m < ATTENTION_BLOCK; m++) {
        float *row = rows + m * p->keys;
        keep_stats(x + m, masked_row(row, row, x[m].mask, most, x[m].seen, p->alpha, p->safe));
    }
    product_rows(x->y, p->y_t, p->width, &(const terms_t){1, most, 0, 0, 0, p->v_s}, rows, p->keys, x->v, 1);
    for (uint32_t m = 0; m < ATTENTION_BLOCK; m++)
        if (x[m].seen < x[m].keys && !is_plain(x[m].y, p->width)) one_query(p, x + m, rows);
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
        const uint32_t count = piece.is_block ? ATTENTION_BLOCK : 1;
        query_t own[ATTENTION_BLOCK];
        uint32_t most = ATTENTION_BLOCK, alike = piece.is_block;
        for (uint32_t m = 0; m < count; m++) {
            own[m] = query_at(p, &x, m);
            most = own[m].seen > most ? own[m].seen : most;
            alike &= own[m].k == own->k && own[m].keys >= ATTENTION_BLOCK;
        }
        if (alike)
            some_queries(p, own, most, rows);
        else
            for (uint32_t m = 0; m < count; m++) one_query(p, own + m, rows);
    }
    clear_rows(p->rows, length, p->workers);
}
