/* loss = -near w[label] log_prob[n, label, d] - even sum(w[c] log_prob[n, c, d]) for each label that is not ignored, or their
 * sum over a divisor. One core sums in the order of sum_f32.h, each label a group of its own; between tiles the sum waits in
 * loss. A label outside of all classes gives NaN. */
#include "weighted_nll_loss_f32.h"
#include "hal.h"
#include "weighted_labels_f32.h"

static float loss_at(const weighted_nll_loss_f32_args_t *p, uint32_t n, uint32_t d) {
    const int32_t label = p->labels[(p->n_start + n) * p->l_n + p->d_start + d];
    if (label_ignored(label, p->has_ignore, p->ignore)) return 0.0f;
    if ((uint32_t)label >= p->classes) return __builtin_nanf("");
    const float *row = p->log_prob + n * p->p_n + d;
    const float own = p->near * class_weight(p->weights, (uint32_t)label) * row[(uint32_t)label * p->p_c];
    if (p->even == 0.0f) return -own;
    return -__builtin_fmaf(p->even, class_sum(p->weights, p->classes, row, p->p_c), own);
}

void weighted_nll_loss_f32(const void *args) {
    const weighted_nll_loss_f32_args_t *p = args;
    if (p->each) {
        for (uint32_t i = hal_core_id(); i < p->n * p->d; i += hal_core_count())
            p->loss[i / p->d * p->y_n + i % p->d] = loss_at(p, i / p->d, i % p->d);
        return;
    }
    if (hal_core_id() != 0) return;
    const uint32_t size = p->carry ? 1 : 0;
    sum_t sum = sum_begin(p->first, size, *p->loss, p->carry);
    for (uint32_t n = 0; n < p->n; n++)
        for (uint32_t d = 0; d < p->d; d++) {
            if (size) sum_close(&sum);
            sum.block += loss_at(p, n, d);
        }
    if (p->last) {
        const float divisor =
            weight_divisor(p->weights, p->classes, p->labels, p->counted, p->has_ignore, p->ignore, p->count);
        *p->loss = sum_value(&sum, size) / divisor;
        sum_end(size, p->carry);
    } else
        *p->loss = sum_wait(&sum, size, 0, p->carry);
}
