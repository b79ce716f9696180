/* dx = dloss (exp(log_prob) - onehot(label)) / count, 0 where the label is ignored. */
#include "softmax_ce_grad_f32.h"
#include "hal.h"
#include "labels_f32.h"
#include "math_f32.h"

void softmax_ce_grad_f32(const void *args) {
    const softmax_ce_grad_f32_args_t *p = args;
    const float divisor = label_divisor(p->labels, p->counted, p->ignore, p->count);
    const uint32_t total = p->n * p->c * p->d;
    for (uint32_t i = hal_core_id(); i < total; i += hal_core_count()) {
        const uint32_t d = i % p->d, c = i / p->d % p->c, n = i / p->d / p->c;
        const int32_t label = p->labels[(p->n_start + n) * p->l_n + p->d_start + d];
        float *dx = p->dx + n * p->x_n + c * p->x_c + d;
        if (label_ignored(label, p->has_ignore, p->ignore)) {
            *dx = 0.0f;
            continue;
        }
        const float onehot = (uint32_t)label == p->c_start + c ? 1.0f : 0.0f;
        const float value = (expf_f32(p->log_prob[n * p->p_n + c * p->p_c + d]) - onehot) / divisor;
        *dx = p->dloss ? value * p->dloss[n * p->g_n + d * p->g_d] : value;
    }
}
