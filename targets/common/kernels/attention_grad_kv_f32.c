/* dK = dS^T Q and dV = P^T dY, a key at a time: P and dS of all queries of a group of heads are computed again, then summed in
 * the order of the queries. The sums are those of gemm_f32. */
#include "attention_rows_f32.h"
#include "attention_grad_kv_f32.h"
#include "hal.h"

/* Terms of a sum over queries: rows of the heads of a group, of which each leaves out the first `skipped`. */
typedef struct {
    uint32_t groups, rows, skipped, group_step, row_step;
} queries_t;

/* y[j] = the sum of a[i] b[i, j] over all queries i of all heads, of four j. */
static inline void query_sums(float *y, const queries_t *p, const float *a, const float *b) {
    const uint32_t count = p->groups * p->rows;
    four_t sums = four_zero();
    for (uint32_t begin = 0; begin < count; begin += PRODUCTS_BLOCK) {
        const uint32_t end = hal_min(count, begin + PRODUCTS_BLOCK);
        four_t blocks = four_zero();
        for (uint32_t i = begin; i < end;) {
            const uint32_t group = i / p->rows, next = hal_min(end, (group + 1) * p->rows);
            uint32_t t = i - group * p->rows;
            if (t < p->skipped) i += p->skipped - t, t = p->skipped;
            if (i < next)
                blocks = add_products(blocks, a + i, b + group * p->group_step + t * p->row_step, p->row_step, next - i);
            i = next;
        }
        sums = four_add(sums, blocks, begin == 0);
    }
    four_store(y, 1, sums);
}

/* The same of one. */
static inline void query_sum(float *y, const queries_t *p, const float *a, const float *b) {
    const uint32_t count = p->groups * p->rows;
    float sum = 0.0f;
    for (uint32_t begin = 0; begin < count; begin += PRODUCTS_BLOCK) {
        const uint32_t end = hal_min(count, begin + PRODUCTS_BLOCK);
        float block = 0.0f;
        for (uint32_t i = begin; i < end;) {
            const uint32_t group = i / p->rows, next = hal_min(end, (group + 1) * p->rows);
            uint32_t t = i - group * p->rows;
            if (t < p->skipped) i += p->skipped - t, t = p->skipped;
            const float *from = b + group * p->group_step + t * p->row_step;
            for (; i < next; i++, from += p->row_step) block = __builtin_fmaf(a[i], *from, block);
            i = next;
        }
        sum = products_add(sum, block, begin == 0);
    }
    *y = sum;
}

static inline void query_row(float *y, uint32_t n, const queries_t *p, const float *a, const float *b) {
    uint32_t j = 0;
    for (; j + FOUR <= n; j += FOUR) query_sums(y + j, p, a, b + j);
    for (; j < n; j++) query_sum(y + j, p, a, b + j);
}

typedef struct {
    const float *q, *k, *v, *dy, *mask, *stats, *dot;
    float *dk, *dv, *shares, *slopes;
    uint32_t first; /* the first query that sees the key */
} key_t;

/* The gradients of a key and a value by the queries of each head from `begin` on. */
static inline void key_grad(const attention_grad_kv_f32_args_t *p, const key_t *x, uint32_t begin) {
    const uint32_t rows = p->t;
    for (uint32_t g = 0; g < p->g; g++) {
        float *shares = x->shares + g * rows, *slopes = x->slopes + g * rows;
        const float *q = x->q + g * p->q_g + begin * p->q_t, *dy = x->dy + g * p->dy_g + begin * p->dy_t;
        product_row(shares + begin, rows - begin, x->k, q, 1, p->q_t, p->depth);
        product_row(slopes + begin, rows - begin, x->v, dy, 1, p->dy_t, p->width);
        const float *mask = x->mask ? x->mask + g * p->mask_g : 0, *group = x->stats + g * p->stats_g;
        for (uint32_t t = begin; t < rows; t++)
            shares[t] = below_largest(shares[t], p->alpha, mask ? mask + t * p->mask_t : 0, group + t * p->stats_t);
        powers_row(shares + begin, rows - begin);
        for (uint32_t t = begin; t < rows; t++) {
            const float share = t < x->first ? 0.0f : share_of_power(shares[t], group + t * p->stats_t);
            shares[t] = share;
            slopes[t] = share * (slopes[t] - x->dot[g * p->dot_g + t * p->dot_t]) * p->alpha;
        }
    }
    query_row(x->dk, p->depth, &(const queries_t){p->g, rows, begin, p->q_g, p->q_t}, x->slopes, x->q);
    query_row(x->dv, p->width, &(const queries_t){p->g, rows, begin, p->dy_g, p->dy_t}, x->shares, x->dy);
}

void attention_grad_kv_f32(const void *args) {
    const attention_grad_kv_f32_args_t *p = args;
    const uint32_t cores = working_cores(p->workers), count = p->b * p->h * p->s, length = p->g * p->t;
    if (hal_core_id() >= cores) return;
    float *row = p->rows + hal_core_id() * 2 * length;
    for (uint32_t i = hal_core_id(); i < count; i += cores) {
        const uint32_t s = i % p->s, h = i / p->s % p->h, b = i / p->s / p->h;
        const key_t x = {
            .q = p->q + b * p->q_b + h * p->q_h,
            .k = p->k + b * p->k_b + h * p->k_h + s * p->k_s,
            .v = p->v + b * p->v_b + h * p->v_h + s * p->v_s,
            .dy = p->dy + b * p->dy_b + h * p->dy_h,
            .mask = p->mask ? p->mask + b * p->mask_b + h * p->mask_h + s : 0,
            .stats = p->stats + b * p->stats_b + h * p->stats_h,
            .dot = p->dot + b * p->dot_b + h * p->dot_h,
            .dk = p->dk + b * p->dk_b + h * p->dk_h + s * p->dk_s,
            .dv = p->dv + b * p->dv_b + h * p->dv_h + s * p->dv_s,
            .shares = row,
            .slopes = row + length,
            .first = p->causal ? hal_min(p->t, p->start + s) : 0,
        };
        key_grad(p, &x, x.first);
        if (x.first && (has_negative_zero(x.dk, p->depth) || has_negative_zero(x.dv, p->width))) key_grad(p, &x, 0);
    }
    clear_rows(p->rows, 2 * length, p->workers);
}
