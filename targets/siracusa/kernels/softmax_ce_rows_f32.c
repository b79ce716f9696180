/* Softmax cross entropy of several labels in one walk, with the log probability of each label, as the common kernel has it. */
#include "softmax_ce_rows_f32.h"
#include "softmax_ce_row.h"

void softmax_ce_rows_f32(const void *args) {
    const softmax_ce_rows_f32_args_t *p = args;
    const uint32_t rows = p->n * p->d, classes = p->classes, x_c = p->x_c, dx_c = p->dx_c;
    const float divisor = label_divisor(p->labels, p->counted, p->ignore, p->count), one = LITERAL_F32(1.0f);
    for (uint32_t i = hal_core_id(); i < rows; i += hal_core_count()) {
        const uint32_t n = p->d > 1 ? i / p->d : i, d = i - n * p->d;
        const float *const x = p->x + n * p->x_n + d, max = largest_of(x, x_c, classes);
        float *const dx = p->dx + n * p->dx_n + d;
        const float sum = classes > SUM_BLOCK ? long_sum(dx, dx_c, x, x_c, classes, max)
                                              : powers(dx, dx_c, x, x_c, classes, max, 0.0f);
        const float log_sum = log_of_sum(sum);
        const int32_t label = p->labels[(p->n_start + n) * p->l_n + p->d_start + d];
        const uint32_t hot = (uint32_t)label;
        p->picked[n * p->y_n + d] = hot < classes ? x[hot * x_c] - max - log_sum : 0.0f;
        if (label_ignored(label, p->has_ignore, p->ignore)) {
            clear(dx, dx_c, classes);
            continue;
        }
        powers(dx, dx_c, x, x_c, classes, max, log_sum);
        if (hot < classes) dx[hot * dx_c] -= one;
        if (divisor != one || p->dloss)
            epilogue(dx, dx_c, classes, divisor, p->dloss ? p->dloss[n * p->g_n + d * p->g_d] : one);
    }
}
