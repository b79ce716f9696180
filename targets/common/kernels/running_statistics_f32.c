/* Running mean and variance after a batch, in place: what is kept of them, and what is added of the batch's. */
#include "running_statistics_f32.h"
#include "hal.h"
#include "quotient_f32.h"

void running_statistics_f32(const void *args) {
    const running_statistics_f32_args_t *p = args;
    for (uint32_t i = hal_core_id(); i < p->n; i += hal_core_count()) {
        const float variance = QUOTIENT_F32(1.0f, p->inv_std[i] * p->inv_std[i]) - p->epsilon;
        p->running_mean[i] = __builtin_fmaf(p->kept, p->running_mean[i], p->added * p->mean[i]);
        p->running_var[i] = __builtin_fmaf(p->kept, p->running_var[i], p->added_var * variance);
    }
}
