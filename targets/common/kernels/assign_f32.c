/* state = x, word by word, floats or integers. */
#include "assign_f32.h"
#include "hal.h"
#include "share_f32.h"

void assign_f32(const void *args) {
    const assign_f32_args_t *p = args;
    const share_t share = share_of(p->n);
    for (uint32_t i = share.begin; i < share.end; i++) p->state[i] = p->x[i];
}
