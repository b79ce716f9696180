/* count = count + 1. */
#include "hal.h"
#include "update_count_i32.h"

void update_count_i32(const void *args) {
    const update_count_i32_args_t *p = args;
    for (uint32_t i = hal_core_id(); i < p->n; i += hal_core_count())
        p->count[i] = (int32_t)((uint32_t)p->count[i] + 1u);
}
