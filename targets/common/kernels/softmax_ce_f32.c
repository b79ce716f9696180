/* Softmax cross entropy in one walk: log_prob = x - max - log(sum(exp(x - max))) over the classes of each label, in the order of
 * sum_f32.h, the loss -log_prob[label] / count, and dx = dloss (exp(log_prob) - onehot(label)) / count, 0 where the label is
 * ignored. Loss and log_prob may be null. A label outside of all classes gives a loss of NaN. */
#include "softmax_ce_f32.h"
#include "hal.h"
#include "labels_f32.h"
#include "log_sum_f32.h"

void softmax_ce_f32(const void *args) {
    const softmax_ce_f32_args_t *p = args;
    const uint32_t rows = p->n * p->d;
    const float divisor = label_divisor(p->labels, p->counted, p->ignore, p->count);
    for (uint32_t i = hal_core_id(); i < rows; i += hal_core_count()) {
        const uint32_t n = i / p->d, d = i % p->d;
        const float *x = p->x + n * p->x_n + d;
        float *dx = p->dx + n * p->dx_n + d;
        const int32_t label = p->labels[(p->n_start + n) * p->l_n + p->d_start + d];
        const int ignored = label_ignored(label, p->has_ignore, p->ignore);
        float max, loss = ignored ? 0.0f : NAN_F32;
        const float log_sum = log_sum_f32(x, p->x_c, p->classes, &max);
        for (uint32_t c = 0; c < p->classes; c++) {
            const float log_prob = x[c * p->x_c] - max - log_sum, onehot = (uint32_t)label == c ? 1.0f : 0.0f;
            if (p->log_prob) p->log_prob[n * p->p_n + c * p->p_c + d] = log_prob;
            if ((uint32_t)label == c && !ignored) loss = 0.0f - log_prob;
            const float value = ignored ? 0.0f : (expf_f32(log_prob) - onehot) / divisor;
            dx[c * p->dx_c] = p->dloss && !ignored ? value * p->dloss[n * p->g_n + d * p->g_d] : value;
        }
        if (p->loss) p->loss[n * p->y_n + d] = loss / divisor;
    }
}
