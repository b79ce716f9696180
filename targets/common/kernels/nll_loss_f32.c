/* loss = -log_prob[n, label, d] for each label that is not ignored, or their sum over a divisor. One core sums in
 * the order of sum_f32.h, where a long sum has blocks of one label each; between tiles the sum waits in loss. A tile with some
 * of the classes adds the labels among these; a label outside of all classes gives NaN. */
#include "nll_loss_f32.h"
#include "hal.h"
#include "labels_f32.h"
#include "sum_f32.h"

static float loss_at(const nll_loss_f32_args_t *p, uint32_t n, uint32_t d) {
    const int32_t label = p->labels[(p->n_start + n) * p->l_n + p->d_start + d];
    if (label_ignored(label, p->has_ignore, p->ignore)) return 0.0f;
    if ((uint32_t)label >= p->classes) return __builtin_nanf("");
    const uint32_t c = (uint32_t)label - p->c_start;
    return c < p->c ? -p->log_prob[n * p->p_n + c * p->p_c + d] : 0.0f;
}

/* A long sum, apart from the short ones so that they load none of its code. */
static __attribute__((noinline)) float blocks(const nll_loss_f32_args_t *p) {
    sum_t sum = sum_begin(p->first, 1, *p->loss, p->carry);
    for (uint32_t n = 0; n < p->n; n++)
        for (uint32_t d = 0; d < p->d; d++) {
            sum_close(&sum);
            sum.block += loss_at(p, n, d);
        }
    if (!p->last) return sum_wait(&sum, 1, 0, p->carry);
    sum_end(1, p->carry);
    return sum_value(&sum, 1);
}

void nll_loss_f32(const void *args) {
    const nll_loss_f32_args_t *p = args;
    if (p->each) {
        for (uint32_t i = hal_core_id(); i < p->n * p->d; i += hal_core_count()) {
            float *loss = p->loss + i / p->d * p->y_n + i % p->d;
            *loss = (p->first ? 0.0f : *loss) + loss_at(p, i / p->d, i % p->d);
        }
        return;
    }
    if (hal_core_id() != 0) return;
    float sum = p->first ? 0.0f : *p->loss;
    if (p->carry)
        sum = blocks(p);
    else
        for (uint32_t n = 0; n < p->n; n++)
            for (uint32_t d = 0; d < p->d; d++) sum += loss_at(p, n, d);
    if (p->last) sum = sum / label_divisor(p->labels, p->counted, p->ignore, p->count);
    *p->loss = sum;
}
