/* dQ = dS K of dS = alpha P (dP - dot), dP = dY V^T, dot = sum(dP P), a query, or a block of
 * neighbouring queries, at a time, whose P is computed again. The sums are those of gemm_f32 and softmax_grad_f32. */
#include "attention_rows_f32.h"
#include "attention_grad_q_f32.h"
#include "hal.h"

typedef struct {
    const float *q, *k, *v, *dy, *mask;
    float *dq, *dot, *shares, *slopes;
    uint32_t keys, seen; /* from `k` on */
} query_t;

static inline query_t query_of(const attention_grad_q_f32_args_t *p, uint32_t head, uint32_t t, float *rows) {
    const uint32_t g = head % p->g, h = head / p->g % p->h, b = head / p->g / p->h;
    return (query_t){
        .q = p->q + b * p->q_b + h * p->q_h + g * p->q_g + t * p->q_t,
        .k = p->k + b * p->k_b + h * p->k_h,
        .v = p->v + b * p->v_b + h * p->v_h,
        .dy = p->dy + b * p->dy_b + h * p->dy_h + g * p->dy_g + t * p->dy_t,
        .mask = p->mask ? p->mask + b * p->mask_b + h * p->mask_h + g * p->mask_g + t * p->mask_t : 0,
        .dq = p->dq + b * p->dq_b + h * p->dq_h + g * p->dq_g + t * p->dq_t,
        .dot = p->dot + b * p->dot_b + h * p->dot_h + g * p->dot_g + t * p->dot_t,
        .shares = rows,
        .slopes = rows + p->rows_each * p->keys,
        .keys = p->keys,
        .seen = p->causal ? hal_min(p->keys, p->start + t + 1) : p->keys,
    };
}

/* The m-th query behind it, with rows of its own, without what its mask hides at both ends. */
static inline query_t query_at(const attention_grad_q_f32_args_t *p, const query_t *x, uint32_t m) {
    query_t own = *x;
    own.q += m * p->q_t, own.dy += m * p->dy_t, own.dq += m * p->dq_t, own.dot += m * p->dot_t;
    own.shares += m * p->keys, own.slopes += m * p->keys;
    if (p->causal) own.seen = hal_min(p->keys, own.seen + m);
    if (!own.mask) return own;
    own.mask += m * p->mask_t;
    if (!p->safe) return own;
    const keys_t keys = keys_of(own.mask, own.seen);
    const uint32_t first = p->from_first ? keys.first : 0;
    own.k += first * p->k_s, own.v += first * p->v_s, own.mask += first, own.keys -= first, own.seen = keys.end - first;
    return own;
}

/* The gradients of the scores of a query, in the place of its shares, from the gradients of those of the first `count` keys. */
static inline void score_grads(const attention_grad_q_f32_args_t *p, const query_t *x, uint32_t count) {
    const uint32_t size = x->keys > SUM_BLOCK ? SUM_BLOCK : 0;
    sum_t sum = {0};
    for (uint32_t j = 0; j < count;) {
        const uint32_t next = sum_next(&sum, size, j, count - j);
        sum.block = add_dot(sum.block, x->slopes + j, x->shares + j, next);
        j += next;
    }
    *x->dot = sum_value(&sum, size);
    slope_row(x->shares, x->slopes, *x->dot, p->alpha, count);
}

/* The gradient of a query by its first `count` keys. */
static inline void query_grad(const attention_grad_q_f32_args_t *p, const query_t *x, uint32_t count) {
    product_row(x->shares, count, x->q, x->k, 1, p->k_s, p->depth);
    product_row(x->slopes, count, x->dy, x->v, 1, p->v_s, p->width);
    masked_row(x->shares, x->shares, x->mask, x->keys, x->seen, p->alpha, p->safe);
    score_grads(p, x, count);
    product_row(x->dq, p->depth, x->shares, x->k, p->k_s, 1, count);
}

/* In rows that belong to the first of a block. */
static __attribute__((noinline)) void one_query(const attention_grad_q_f32_args_t *p, const query_t *x, float *rows) {
    query_t own = *x;
    own.shares = rows, own.slopes = rows + p->rows_each * p->keys;
    query_grad(p, &own, x->seen);
    if (x->seen < x->keys && (has_negative_zero(x->dot, 1) || has_negative_zero(x->dq, p->depth))) query_grad(p, &own, x->keys);
}

/* A block of queries, which have their first key in common. */
static inline void some_queries(const attention_grad_q_f32_args_t *p, const query_t *x, uint32_t most) {
    const uint32_t keys = p->keys;
    product_rows(x->shares, keys, most, &(const terms_t){1, p->depth, 0, 0, 0, 1}, x->q, p->q_t, x->k, p->k_s);
    product_rows(x->slopes, keys, most, &(const terms_t){1, p->width, 0, 0, 0, 1}, x->dy, p->dy_t, x->v, p->v_s);
    for (uint32_t m = 0; m < ATTENTION_BLOCK; m++) {
        masked_row(x[m].shares, x[m].shares, x[m].mask, most, x[m].seen, p->alpha, p->safe);
        score_grads(p, x + m, x[m].seen);
    }
    product_rows(x->dq, p->dq_t, p->depth, &(const terms_t){1, most, 0, 0, 0, p->k_s}, x->shares, keys, x->k, 1);
    for (uint32_t m = 0; m < ATTENTION_BLOCK; m++)
        if (x[m].seen < x[m].keys && !(is_plain(x[m].dot, 1) && is_plain(x[m].dq, p->depth))) one_query(p, x + m, x->shares);
}

void attention_grad_q_f32(const void *args) {
    const attention_grad_q_f32_args_t *p = args;
    const uint32_t cores = working_cores(p->workers), length = 2 * p->rows_each * p->keys, heads = p->b * p->h * p->g;
    if (hal_core_id() >= cores) return;
    float *rows = p->rows + hal_core_id() * length;
    const pieces_t pieces = pieces_of(heads, p->t, p->rows_each);
    for (uint32_t round = 0; round * cores < pieces.count; round++) {
        const piece_t piece = piece_at(&pieces, round, cores);
        if (piece.head == heads) continue;
        const query_t x = query_of(p, piece.head, piece.first, rows);
        const uint32_t count = piece.is_block ? ATTENTION_BLOCK : 1;
        query_t own[ATTENTION_BLOCK];
        uint32_t most = ATTENTION_BLOCK, alike = piece.is_block;
        for (uint32_t m = 0; m < count; m++) {
            own[m] = query_at(p, &x, m);
            most = own[m].seen > most ? own[m].seen : most;
            alike &= own[m].k == own->k && own[m].keys >= ATTENTION_BLOCK;
        }
        if (alike)
            some_queries(p, own, most);
        else
            for (uint32_t m = 0; m < count; m++) one_query(p, own + m, rows);
    }
    clear_rows(p->rows, length, p->workers);
}
