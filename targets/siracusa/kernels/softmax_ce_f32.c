/* Softmax cross entropy in one walk, as the common kernel has it. Loss and log_prob may be null. */
#include "softmax_ce_f32.h"
#include "softmax_ce_row.h"

/* The logarithms of the probabilities. */
NOINLINE void put_log_prob(float *y, uint32_t y_step, const float *x, uint32_t step, uint32_t count, float max, float log_sum) {
    subtract(y, y_step, x, step, count, max, log_sum);
}

NOINLINE void all_rows(const softmax_ce_f32_args_t *p) {
    const uint32_t rows = p->n * p->d, classes = p->classes, x_c = p->x_c, dx_c = p->dx_c;
    const float divisor = label_divisor(p->labels, p->counted, p->ignore, p->count);
    for (uint32_t i = hal_core_id(); i < rows; i += hal_core_count()) {
        const uint32_t n = p->d > 1 ? i / p->d : i, d = i - n * p->d;
        const float *const x = p->x + n * p->x_n + d, max = largest_of(x, x_c, classes);
        float *const dx = p->dx + n * p->dx_n + d;
        const float sum = classes > SUM_BLOCK ? long_sum(dx, dx_c, x, x_c, classes, max)
                                              : powers(dx, dx_c, x, x_c, classes, max, 0.0f);
        const float log_sum = log_of_sum(sum), one = LITERAL_F32(1.0f);
        powers(dx, dx_c, x, x_c, classes, max, log_sum);
        const int32_t label = p->labels[(p->n_start + n) * p->l_n + p->d_start + d];
        float loss = LITERAL_F32(NAN_F32);
        if (label_ignored(label, p->has_ignore, p->ignore)) {
            clear(dx, dx_c, classes);
            loss = 0.0f;
        } else {
            if ((uint32_t)label < classes) {
                loss = 0.0f - (x[(uint32_t)label * x_c] - max - log_sum);
                dx[(uint32_t)label * dx_c] -= one;
            }
            if (divisor != one || p->dloss)
                epilogue(dx, dx_c, classes, divisor, p->dloss ? p->dloss[n * p->g_n + d * p->g_d] : one);
        }
        if (p->loss) p->loss[n * p->y_n + d] = divisor != one ? loss / divisor : loss;
        if (p->log_prob) put_log_prob(p->log_prob + n * p->p_n + d, p->p_c, x, x_c, classes, max, log_sum);
    }
}

/* One label that counts, of few classes, without dloss, is what small networks have: less code, all of it on one core. */
void softmax_ce_f32(const void *args) {
    const softmax_ce_f32_args_t *p = args;
    const uint32_t classes = p->classes, x_c = p->x_c, dx_c = p->dx_c;
    const uint32_t unusual = (p->n * p->d - 1) | (bits_in_core(p->count) - 0x3f800000u); /* 0: one row, and count is 1.0f */
    if (unusual | p->has_ignore | (uint32_t)p->dloss | (uint32_t)p->log_prob || classes > SUM_BLOCK) {
        all_rows(p);
        return;
    }
    if (hal_core_id() != 0) return;
    const float *const x = p->x, max = largest_of(x, x_c, classes);
    float *const dx = p->dx, log_sum = 0.0f;
    for (uint32_t turn = 0;; turn++) { /* for the sum, then for dx: the code of a power is there once */
        const float *at = x;
        float *to = dx, sum = 0.0f;
        uint32_t least = NO_POWER;
        ADD_POWERS("fsub.s ft0, ft0, %[log_sum]\n", 1, sum, to, dx_c, at, x_c, classes, max, log_sum, least);
        if (turn) break;
        log_sum = log_of_sum(sum);
    }
    const uint32_t label = (uint32_t)*p->labels;
    float loss = LITERAL_F32(NAN_F32);
    if (label < classes) {
        loss = 0.0f - (x[label * x_c] - max - log_sum);
        dx[label * dx_c] -= LITERAL_F32(1.0f);
    }
    if (p->loss) *p->loss = loss;
}
