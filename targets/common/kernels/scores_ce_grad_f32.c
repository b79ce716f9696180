/* dx = dloss (exp(x - max - log_sum) - onehot(label)) / count, 0 where the label is ignored. Cores share the classes of each
 * row, so that few indices are divided. In place x is null: it lies in dx. */
#include "scores_ce_grad_f32.h"
#include "hal.h"
#include "labels_f32.h"
#include "math_f32.h"
#include "share_f32.h"

void scores_ce_grad_f32(const void *args) {
    const scores_ce_grad_f32_args_t *p = args;
    const float divisor = label_divisor(p->labels, p->counted, p->ignore, p->count);
    const share_t share = share_of(p->c);
    for (uint32_t n = 0; n < p->n; n++)
        for (uint32_t d = 0; d < p->d; d++) {
            const int32_t label = p->labels[(p->n_start + n) * p->l_n + p->d_start + d];
            const int ignored = label_ignored(label, p->has_ignore, p->ignore);
            const uint32_t hot = (uint32_t)label - p->c_start;
            const float max = p->max[n * p->m_n + d], log_sum = p->log_sum[n * p->s_n + d];
            const float scale = p->dloss ? p->dloss[n * p->g_n + d * p->g_d] : 1.0f;
            const float *x = (p->x ? p->x : p->dx) + n * p->x_n + d;
            float *dx = p->dx + n * p->dx_n + d;
            for (uint32_t c = share.begin; c < share.end; c++) {
                const float value = (expf_f32(x[c * p->x_c] - max - log_sum) - (c == hot ? 1.0f : 0.0f)) / divisor;
                dx[c * p->dx_c] = ignored ? 0.0f : value * scale;
            }
        }
}
