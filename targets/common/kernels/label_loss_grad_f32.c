/* The gradient for log probabilities, dx = -dloss q / divisor with q[c] = near w[label] [c = label] + even w[c], or for
 * scores, dx = dloss (exp(log_prob) sum(q) - q) / divisor; 0 where the label is ignored. */
#include "label_loss_grad_f32.h"
#include "hal.h"
#include "math_f32.h"
#include "weighted_labels_f32.h"

void label_loss_grad_f32(const void *args) {
    const label_loss_grad_f32_args_t *p = args;
    const float divisor =
        weight_divisor(p->weights, p->classes, p->labels, p->counted, p->has_ignore, p->ignore, p->count);
    const float all = p->even != 0.0f ? p->even * class_sum(p->weights, p->classes, 0, 0) : 0.0f;
    const uint32_t total = p->n * p->c * p->d;
    for (uint32_t i = hal_core_id(); i < total; i += hal_core_count()) {
        const uint32_t d = i % p->d, c = i / p->d % p->c, n = i / p->d / p->c, k = p->c_start + c;
        const int32_t label = p->labels[(p->n_start + n) * p->l_n + p->d_start + d];
        float *dx = p->dx + n * p->x_n + c * p->x_c + d;
        if (label_ignored(label, p->has_ignore, p->ignore)) {
            *dx = 0.0f;
            continue;
        }
        const uint32_t inside = (uint32_t)label < p->classes;
        const float near = inside ? p->near * class_weight(p->weights, (uint32_t)label) : 0.0f;
        const float share = p->even * class_weight(p->weights, k) + ((uint32_t)label == k ? near : 0.0f);
        const float powers = p->log_prob ? expf_f32(p->log_prob[n * p->p_n + c * p->p_c + d]) * (near + all) : 0.0f;
        const float value = (powers - share) / divisor;
        *dx = p->dloss ? value * p->dloss[n * p->g_n + d * p->g_d] : value;
    }
}
