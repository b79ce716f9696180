/* dx = dloss (exp(x - max - log_sum) - onehot(label)) / count, 0 where the label is ignored. Cores share the classes of each
 * row. In place x is null: it lies in dx. */
#include "scores_ce_grad_f32.h"
#include "flat.h"
#include "labels_f32.h"
#include "row_powers.h"

void scores_ce_grad_f32(const void *args) {
    const scores_ce_grad_f32_args_t *p = args;
    const float divisor = label_divisor(p->labels, p->counted, p->ignore, p->count), one = LITERAL_F32(1.0f);
    const share_t share = share_of(p->c);
    const uint32_t count = share.end - share.begin, x_c = p->x_c, dx_c = p->dx_c;
    float inverse;
    const int multiplies = inverse_of_power(divisor, &inverse);
    if (count == 0) return;
    for (uint32_t n = 0; n < p->n; n++)
        for (uint32_t d = 0; d < p->d; d++) {
            const int32_t label = p->labels[(p->n_start + n) * p->l_n + p->d_start + d];
            const uint32_t hot = (uint32_t)label - p->c_start - share.begin;
            const float max = p->max[n * p->m_n + d], log_sum = p->log_sum[n * p->s_n + d];
            const float scale = p->dloss ? p->dloss[n * p->g_n + d * p->g_d] : one;
            const float *x = (p->x ? p->x : p->dx) + n * p->x_n + share.begin * x_c + d;
            float *const dx = p->dx + n * p->dx_n + share.begin * dx_c + d, *to = dx, sum = 0.0f;
            if (label_ignored(label, p->has_ignore, p->ignore)) {
                for (uint32_t c = 0; c < count; c++) dx[c * dx_c] = 0.0f;
                continue;
            }
            uint32_t least = NO_POWER;
            ADD_POWERS("fsub.s ft0, ft0, %[log_sum]\n", 1, sum, to, dx_c, x, x_c, count, max, log_sum, least);
            if (hot < count) dx[hot * dx_c] -= one;
            if (divisor == one && !p->dloss) continue;
            for (uint32_t c = 0; c < count; c++) {
                float *const at = dx + c * dx_c;
                *at = (multiplies ? *at * inverse : *at / divisor) * scale;
            }
        }
}
