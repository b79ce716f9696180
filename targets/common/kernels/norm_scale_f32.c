/* y = limit / (sqrt(x) + margin), at most 1; NaN stays NaN. */
#include "norm_scale_f32.h"
#include "hal.h"

void norm_scale_f32(const void *args) {
    const norm_scale_f32_args_t *p = args;
    for (uint32_t i = hal_core_id(); i < p->n; i += hal_core_count()) {
        const float scale = p->limit / (__builtin_sqrtf(p->x[i]) + p->margin);
        p->y[i] = scale > 1.0f ? 1.0f : scale;
    }
}
