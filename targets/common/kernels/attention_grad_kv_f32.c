/* dK = dS^T Q and dV = P^T dY, a key, or a block of neighbouring keys, at a time: P and dS of all queries of a group of heads are
 * computed again, then summed in the order of the queries. The sums are those of gemm_f32. */
#include "attention_rows_f32.h"
#include "attention_grad_kv_f32.h"
#include "hal.h"

/* y[j] = the sum of a[i] b[i, j] over the queries i of all heads, of four j. */
static inline void query_sums(float *y, const terms_t *p, const float *a, const float *b) {
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
                blocks = add_products(blocks, a + group * p->group_length + t, b + group * p->group_step + t * p->row_step,
                                      p->row_step, next - i);
            i = next;
        }
        sums = four_add(sums, blocks, begin == 0);
    }
    four_store(y, 1, sums);
}

/* The same of one. */
static inline void query_sum(float *y, const terms_t *p, const float *a, const float *b) {
    const uint32_t count = p->groups * p->rows;
    float sum = 0.0f;
    for (uint32_t begin = 0; begin < count; begin += PRODUCTS_BLOCK) {
        const uint32_t end = hal_min(count, begin + PRODUCTS_BLOCK);
        float block = 0.0f;
        for (uint32_t i = begin; i < end;) {
            const uint32_t group = i / p->rows, next = hal_min(end, (group + 1) * p->rows);
            uint32_t t = i - group * p->rows;
            if (t < p->skipped) i += p->skipped - t, t = p->skipped;
            const float *x = a + group * p->group_length + t, *from = b + group * p->group_step + t * p->row_step;
            for (; i < next; i++, from += p->row_step) block = __builtin_fmaf(*x++, *from, block);
            i = next;
        }
        sum = products_add(sum, block, begin == 0);
    }
    *y = sum;
}

static __attribute__((noinline)) void query_row(float *y, uint32_t n, const terms_t *p, const float *a, const float *b) {
    uint32_t j = 0;
    for (; j + FOUR <= n; j += FOUR) query_sums(y + j, p, a, b + j);
    for (; j < n; j++) query_sum(y + j, p, a, b + j);
}

typedef struct {
    const float *q, *k, *v, *dy, *mask, *stats, *dot;
    float *dk, *dv;
    uint32_t first; /* the first query that sees the key */
} key_t;

static inline key_t key_of(const attention_grad_kv_f32_args_t *p, uint32_t head, uint32_t s) {
    const uint32_t h = head % p->h, b = head / p->h;
    return (key_t){
        .q = p->q + b * p->q_b + h * p->q_h,
        .k = p->k + b * p->k_b + h * p->k_h + s * p->k_s,
        .v = p->v + b * p->v_b + h * p->v_h + s * p->v_s,
        .dy = p->dy + b * p->dy_b + h * p->dy_h,
        .mask = p->mask ? p->mask + b * p->mask_b + h * p->mask_h + s : 0,
        .stats = p->stats + b * p->stats_b + h * p->stats_h,
        .dot = p->dot + b * p->dot_b + h * p->dot_h,
        .dk = p->dk + b * p->dk_b + h * p->dk_h + s * p->dk_s,
        .dv = p->dv + b * p->dv_b + h * p->dv_h + s * p->dv_s,
        .first = p->causal ? hal_min(p->t, p->start + s) : 0,
    };
}

/* Whether no query t of a group of heads sees the key. */
static inline uint32_t is_hidden(const attention_grad_kv_f32_args_t *p, const float *mask, uint32_t t) {
    for (uint32_t g = 0; g < p->g; g++)
        if (mask[g * p->mask_g + t * p->mask_t] != -__builtin_inff()) return 0;
    return 1;
}

/* The m-th key behind it, without the queries before the first that sees it. */
static inline key_t key_at(const attention_grad_kv_f32_args_t *p, const key_t *x, uint32_t m) {
    key_t own = *x;
    own.k += m * p->k_s, own.v += m * p->v_s, own.dk += m * p->dk_s, own.dv += m * p->dv_s;
    if (p->causal) own.first = hal_min(p->t, own.first + m);
    if (!own.mask) return own;
    own.mask += m;
    if (!p->safe) return own;
    while (own.first < p->t && is_hidden(p, own.mask, own.first)) own.first = p->mask_t ? own.first + 1 : p->t;
    return own;
}

/* The first query of a group of heads that sees any key; 0 where sums over queries begin with the first of all. */
static inline uint32_t first_query(const attention_grad_kv_f32_args_t *p, const float *stats) {
    uint32_t first = 0;
    if (!p->from_first) return 0;
    for (; first < p->t; first++)
        for (uint32_t g = 0; g < p->g; g++)
            if (stats[g * p->stats_g + first * p->stats_t + 1] != 0.0f) return first;
    return first;
}

/* The shares of some keys, and the gradients of their scores, by the queries of a head from `begin` on; of queries that do not
 * see a key both are zeros. */
static inline void score_grads(const attention_grad_kv_f32_args_t *p, const key_t *x, uint32_t rows, uint32_t g, uint32_t begin,
                               float *shares, float *slopes) {
    const uint32_t count = p->t, length = p->g * count;
    const scores_t scores = {
        .mask = x->mask ? x->mask + g * p->mask_g + begin * p->mask_t : 0,
        .stats = x->stats + g * p->stats_g + begin * p->stats_t,
        .dot = x->dot + g * p->dot_g + begin * p->dot_t,
        .mask_next = p->mask_t,
        .stats_next = p->stats_t,
        .dot_next = p->dot_t,
        .alpha = p->alpha,
    };
    if (begin == count) return;
    score_columns(&scores, shares + begin, slopes + begin, rows, length, count - begin);
    for (uint32_t m = 0; m < rows; m++, shares += length, slopes += length) {
        const uint32_t first = x[m].first;
        if (first > begin) fill_line_f32(shares + begin, 0.0f, first - begin), fill_line_f32(slopes + begin, 0.0f, first - begin);
    }
}

/* The gradients of a key and a value by the queries of each head from `begin` on, of which sums begin with number `from`. */
static inline void key_grad(const attention_grad_kv_f32_args_t *p, const key_t *x, uint32_t from, uint32_t begin, float *shares) {
    const uint32_t rows = p->t, left = rows - from;
    float *slopes = shares + p->rows_each * p->g * rows;
    for (uint32_t g = 0; g < p->g; g++) {
        const float *q = x->q + g * p->q_g + begin * p->q_t, *dy = x->dy + g * p->dy_g + begin * p->dy_t;
        product_row(shares + g * rows + begin, rows - begin, x->k, q, 1, p->q_t, p->depth);
        product_row(slopes + g * rows + begin, rows - begin, x->v, dy, 1, p->dy_t, p->width);
        score_grads(p, x, 1, g, begin, shares + g * rows, slopes + g * rows);
    }
    const terms_t keys = {p->g, left, begin - from, rows, p->q_g, p->q_t}, values = {p->g, left, begin - from, rows, p->dy_g, p->dy_t};
    query_row(x->dk, p->depth, &keys, slopes + from, x->q + from * p->q_t);
    query_row(x->dv, p->width, &values, shares + from, x->dy + from * p->dy_t);
}

static __attribute__((noinline)) void one_key(const attention_grad_kv_f32_args_t *p, const key_t *x, uint32_t from, float *rows) {
    const uint32_t begin = x->first > from ? x->first : from;
    key_grad(p, x, from, begin, rows);
    if (begin > from && (has_negative_zero(x->dk, p->depth) || has_negative_zero(x->dv, p->width))) key_grad(p, x, from, from, rows);
}

/* A block of keys, by the queries from `begin` on, which is not beyond the first query of any. */
static inline void some_keys(const attention_grad_kv_f32_args_t *p, const key_t *x, uint32_t from, uint32_t begin, float *shares) {
    const uint32_t rows = p->t, left = rows - from, length = p->g * rows;
    float *slopes = shares + p->rows_each * length;
    for (uint32_t g = 0; g < p->g; g++) {
        const float *q = x->q + g * p->q_g + begin * p->q_t, *dy = x->dy + g * p->dy_g + begin * p->dy_t;
        float *to = shares + g * rows + begin, *slope = slopes + g * rows + begin;
        product_rows(to, length, rows - begin, &(const terms_t){1, p->depth, 0, 0, 0, 1}, x->k, p->k_s, q, p->q_t);
        product_rows(slope, length, rows - begin, &(const terms_t){1, p->width, 0, 0, 0, 1}, x->v, p->v_s, dy, p->dy_t);
        score_grads(p, x, ATTENTION_BLOCK, g, begin, shares + g * rows, slopes + g * rows);
    }
    const terms_t keys = {p->g, left, begin - from, rows, p->q_g, p->q_t}, values = {p->g, left, begin - from, rows, p->dy_g, p->dy_t};
    product_rows(x->dk, p->dk_s, p->depth, &keys, slopes + from, length, x->q + from * p->q_t, 1);
    product_rows(x->dv, p->dv_s, p->width, &values, shares + from, length, x->dy + from * p->dy_t, 1);
    for (uint32_t m = 0; m < ATTENTION_BLOCK; m++)
        if (x[m].first > from && !(is_plain(x[m].dk, p->depth) && is_plain(x[m].dv, p->width))) one_key(p, x + m, from, shares);
}

void attention_grad_kv_f32(const void *args) {
    const attention_grad_kv_f32_args_t *p = args;
    const uint32_t cores = working_cores(p->workers), length = 2 * p->rows_each * p->g * p->t, heads = p->b * p->h;
    if (hal_core_id() >= cores) return;
    float *rows = p->rows + hal_core_id() * length;
    const pieces_t pieces = pieces_of(heads, p->s, p->rows_each);
    for (uint32_t round = 0; round * cores < pieces.count; round++) {
        const piece_t piece = piece_at(&pieces, round, cores);
        if (piece.head == heads) continue;
        const key_t x = key_of(p, piece.head, piece.first);
        const uint32_t count = piece.is_block ? ATTENTION_BLOCK : 1, from = first_query(p, x.stats);
        key_t own[ATTENTION_BLOCK];
        uint32_t begin = p->t > ATTENTION_BLOCK ? p->t - ATTENTION_BLOCK : 0;
        for (uint32_t m = 0; m < count; m++) {
            own[m] = key_at(p, &x, m);
            begin = hal_min(begin, own[m].first > from ? own[m].first : from);
        }
        if (piece.is_block && begin >= from)
            some_keys(p, own, from, begin, rows);
        else
            for (uint32_t m = 0; m < count; m++) one_key(p, own + m, from, rows);
    }
    clear_rows(p->rows, length, p->workers);
}
