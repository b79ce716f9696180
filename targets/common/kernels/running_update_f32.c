/* y = kept * old + added * x. */
#include "hal.h"
#include "running_update_f32.h"
#include "share_f32.h"

void running_update_f32(const void *args) {
    const running_update_f32_args_t *p = args;
    const share_t share = share_of(p->n);
    for (uint32_t i = share.begin; i < share.end; i++) {
        const float added = p->added * p->x[i];
        p->y[i] = __builtin_fmaf(p->kept, p->old[i], added);
    }
}
