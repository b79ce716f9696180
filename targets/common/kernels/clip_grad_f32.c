/* dX = dY where low <= X <= high, else 0. */
#include "clip_grad_f32.h"
#include "hal.h"

void clip_grad_f32(const void *args) {
    const clip_grad_f32_args_t *p = args;
    for (uint32_t i = hal_core_id(); i < p->n; i += hal_core_count())
        p->dx[i] = p->x[i] >= p->low && p->x[i] <= p->high ? p->dy[i] : 0.0f;
}
