/* buffer = fresh ? grad : buffer + grad. */
#include "accumulate_f32.h"
#include "hal.h"

void accumulate_f32(const void *args) {
    const accumulate_f32_args_t *p = args;
    for (uint32_t i = hal_core_id(); i < p->n; i += hal_core_count())
        p->buffer[i] = p->fresh ? p->grad[i] : p->buffer[i] + p->grad[i];
}
