/* Y = X between low and high, high where they cross; NaN stays NaN. */
#include "clip_f32.h"
#include "hal.h"

void clip_f32(const void *args) {
    const clip_f32_args_t *p = args;
    for (uint32_t i = hal_core_id(); i < p->n; i += hal_core_count()) {
        const float raised = p->x[i] < p->low ? p->low : p->x[i];
        p->y[i] = raised > p->high ? p->high : raised;
    }
}
