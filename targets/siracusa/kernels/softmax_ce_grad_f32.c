/* dx = dloss (exp(log_prob) - onehot(label)) / count, 0 where the label is ignored. Cores share the elements evenly,
 * the classes of a label in a row, so that few indices have to be divided. */
#include "softmax_ce_grad_f32.h"
#include "flat.h"
#include "labels_f32.h"
#include "math_f32.h"

void softmax_ce_grad_f32(const void *args) {
    const softmax_ce_grad_f32_args_t *p = args;
    const share_t share = share_of(p->n * p->d * p->c);
    const float divisor = label_divisor(p->labels, p->counted, p->ignore, p->count);
    float inverse;
    const int multiplies = inverse_of_power(divisor, &inverse);
    const uint32_t classes = p->c, log_prob_c = p->p_c, dx_c = p->x_c;
    for (uint32_t i = share.begin; i < share.end;) {
        const uint32_t row = i < classes ? 0 : i / classes, n = p->d == 1 ? row : row / p->d, d = row - n * p->d;
        const uint32_t first = i - row * classes, last = hal_min(classes, first + share.end - i);
        const int32_t label = p->labels[(p->n_start + n) * p->l_n + p->d_start + d];
        const int ignored = label_ignored(label, p->has_ignore, p->ignore);
        const uint32_t hot = (uint32_t)label - p->c_start;
        const float scale = p->dloss ? p->dloss[n * p->g_n + d * p->g_d] : LITERAL_F32(1.0f);
        const float *log_prob = p->log_prob + n * p->p_n + first * log_prob_c + d;
        float *dx = p->dx + n * p->x_n + first * dx_c + d;
        for (uint32_t c = first; c < last; c++, log_prob += log_prob_c, dx += dx_c) {
            float value = 0.0f;
            if (!ignored) {
                value = expf_f32(*log_prob);
                if (c == hot) value -= LITERAL_F32(1.0f);
                value = (multiplies ? value * inverse : value / divisor) * scale;
            }
            *dx = value;
        }
        i += last - first;
    }
}
