/* y = 1 / sqrt(x + epsilon). */
#include "inv_std_f32.h"
#include "hal.h"
#include "math_f32.h"
#include "share_f32.h"

void inv_std_f32(const void *args) {
    const inv_std_f32_args_t *p = args;
    const share_t share = share_of(p->n);
    for (uint32_t i = share.begin; i < share.end; i++) p->y[i] = rsqrt_f32(p->x[i] + p->epsilon);
}
