/* Y = P V of P = softmax(alpha Q K^T + mask), a query at a time; of each query the largest score and the sum of powers. The
 * sums are those of gemm_f32 and masked_softmax_f32. */
#include "attention_f32.h"
#include "attention_rows_f32.h"
#include "hal.h"

void attention_f32(const void *args) {
    const attention_f32_args_t *p = args;
    const uint32_t cores = working_cores(p->workers), queries = p->b * p->h * p->g * p->t, keys = p->keys;
    if (hal_core_id() >= cores) return;
    float *row = p->rows + hal_core_id() * keys;
    for (uint32_t i = hal_core_id(); i < queries; i += cores) {
        const uint32_t t = i % p->t, head = i / p->t, g = head % p->g, h = head / p->g % p->h, b = head / p->g / p->h;
        const uint32_t seen = p->causal ? hal_min(keys, p->start + t + 1) : keys;
        const float *q = p->q + b * p->q_b + h * p->q_h + g * p->q_g + t * p->q_t;
        const float *k = p->k + b * p->k_b + h * p->k_h, *v = p->v + b * p->v_b + h * p->v_h;
        const float *mask = p->mask;
        if (mask) mask += b * p->mask_b + h * p->mask_h + g * p->mask_g + t * p->mask_t;
        float *y = p->y + b * p->y_b + h * p->y_h + g * p->y_g + t * p->y_t;
        product_row(row, seen, q, k, 1, p->k_s, p->depth);
        const row_stats_t stats = masked_row(row, row, mask, keys, seen, p->alpha, p->safe);
        product_row(y, p->width, row, v, p->v_s, 1, seen);
        if (seen < keys && has_negative_zero(y, p->width)) product_row(y, p->width, row, v, p->v_s, 1, keys);
        if (p->stats) {
            float *kept = p->stats + b * p->stats_b + h * p->stats_h + g * p->stats_g + t * p->stats_t;
            kept[0] = stats.max, kept[1] = stats.sum;
        }
    }
    clear_rows(p->rows, keys, p->workers);
}
