/* Y = X, of integers. */
#include "cast_f32.h"
#include "hal.h"
#include "share_f32.h"

void cast_f32(const void *args) {
    const cast_f32_args_t *p = args;
    const share_t share = share_of(p->n);
    for (uint32_t i = share.begin; i < share.end; i++) p->y[i] = (float)p->x[i];
}
