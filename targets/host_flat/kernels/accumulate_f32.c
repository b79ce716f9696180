/* buffer = fresh ? grad : buffer + grad; neighbours go to one core, so that they share vectors. */
#include "accumulate_f32.h"
#include "share_f32.h"

void accumulate_f32(const void *args) {
    const accumulate_f32_args_t *p = args;
    const share_t share = share_of(p->n);
    const uint32_t fresh = p->fresh;
    const float *grad = p->grad;
    float *buffer = p->buffer;
    for (uint32_t i = share.begin; i < share.end; i++) buffer[i] = fresh ? grad[i] : buffer[i] + grad[i];
}
