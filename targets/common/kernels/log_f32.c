/* Y = ln X. */
#include "log_f32.h"
#include "math_f32.h"
#include "share_f32.h"

void log_f32(const void *args) {
    const log_f32_args_t *p = args;
    const share_t share = share_of(p->n);
    for (uint32_t i = share.begin; i < share.end; i++) p->y[i] = logf_f32(p->x[i]);
}
