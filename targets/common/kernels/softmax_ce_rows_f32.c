/* Softmax cross entropy of several labels in one walk, as in softmax_ce_f32.c: dx, and the log probability of each label, 0 of
 * one outside of all classes. */
#include "softmax_ce_rows_f32.h"
#include "hal.h"
#include "labels_f32.h"
#include "log_sum_f32.h"

void softmax_ce_rows_f32(const void *args) {
    const softmax_ce_rows_f32_args_t *p = args;
    const uint32_t rows = p->n * p->d;
    const float divisor = label_divisor(p->labels, p->counted, p->ignore, p->count);
    for (uint32_t i = hal_core_id(); i < rows; i += hal_core_count()) {
        const uint32_t n = i / p->d, d = i % p->d;
        const float *x = p->x + n * p->x_n + d, scale = p->dloss ? p->dloss[n * p->g_n + d * p->g_d] : 1.0f;
        float *dx = p->dx + n * p->dx_n + d;
        const int32_t label = p->labels[(p->n_start + n) * p->l_n + p->d_start + d];
        const int ignored = label_ignored(label, p->has_ignore, p->ignore);
        float max, picked = 0.0f;
        const float log_sum = log_sum_f32(x, p->x_c, p->classes, &max);
        for (uint32_t c = 0; c < p->classes; c++) {
            const float log_prob = x[c * p->x_c] - max - log_sum, onehot = (uint32_t)label == c ? 1.0f : 0.0f;
            if ((uint32_t)label == c) picked = log_prob;
            dx[c * p->dx_c] = ignored ? 0.0f : (expf_f32(log_prob) - onehot) / divisor * scale;
        }
        p->picked[n * p->y_n + d] = picked;
    }
}
