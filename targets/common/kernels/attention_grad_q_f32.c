/* dQ = dS K of dS = alpha P (dP - dot), dP = dY V^T, dot = sum(dP P), a query at a time, whose P is computed again. The sums
 * are those of gemm_f32 and softmax_grad_f32. */
#include "attention_rows_f32.h"
#include "attention_grad_q_f32.h"
#include "hal.h"

typedef struct {
    const float *q, *k, *v, *dy, *mask;
    float *dq, *dot, *shares, *slopes;
    uint32_t seen;
} query_t;

/* The gradient of a query by its first `count` keys. */
static inline void query_grad(const attention_grad_q_f32_args_t *p, const query_t *x, uint32_t count) {
    const uint32_t size = p->keys > SUM_BLOCK ? SUM_BLOCK : 0;
    float *shares = x->shares, *slopes = x->slopes;
    sum_t sum = {0};
    product_row(shares, count, x->q, x->k, 1, p->k_s, p->depth);
    product_row(slopes, count, x->dy, x->v, 1, p->v_s, p->width);
    masked_row(shares, shares, x->mask, p->keys, x->seen, p->alpha, p->safe);
    for (uint32_t j = 0; j < count;)
        for (const uint32_t end = j + sum_next(&sum, size, j, count - j); j < end; j++)
            sum.block = __builtin_fmaf(slopes[j], shares[j], sum.block);
    const float dot = sum_value(&sum, size);
    for (uint32_t j = 0; j < count; j++) shares[j] = shares[j] * (slopes[j] - dot) * p->alpha;
    product_row(x->dq, p->depth, shares, x->k, p->k_s, 1, count);
    *x->dot = dot;
}

void attention_grad_q_f32(const void *args) {
    const attention_grad_q_f32_args_t *p = args;
    const uint32_t cores = working_cores(p->workers), queries = p->b * p->h * p->g * p->t, keys = p->keys;
    if (hal_core_id() >= cores) return;
    float *row = p->rows + hal_core_id() * 2 * keys;
    for (uint32_t i = hal_core_id(); i < queries; i += cores) {
        const uint32_t t = i % p->t, head = i / p->t, g = head % p->g, h = head / p->g % p->h, b = head / p->g / p->h;
        const query_t x = {
            .q = p->q + b * p->q_b + h * p->q_h + g * p->q_g + t * p->q_t,
            .k = p->k + b * p->k_b + h * p->k_h,
            .v = p->v + b * p->v_b + h * p->v_h,
            .dy = p->dy + b * p->dy_b + h * p->dy_h + g * p->dy_g + t * p->dy_t,
            .mask = p->mask ? p->mask + b * p->mask_b + h * p->mask_h + g * p->mask_g + t * p->mask_t : 0,
            .dq = p->dq + b * p->dq_b + h * p->dq_h + g * p->dq_g + t * p->dq_t,
            .dot = p->dot + b * p->dot_b + h * p->dot_h + g * p->dot_g + t * p->dot_t,
            .shares = row,
            .slopes = row + keys,
            .seen = p->causal ? hal_min(keys, p->start + t + 1) : keys,
        };
        query_grad(p, &x, x.seen);
        if (x.seen < keys && (has_negative_zero(x.dot, 1) || has_negative_zero(x.dq, p->depth))) query_grad(p, &x, keys);
    }
    clear_rows(p->rows, 2 * keys, p->workers);
}
