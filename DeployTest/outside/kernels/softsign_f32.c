/* Y = X / (1 + |X|). */
#include "softsign_f32.h"
#include "hal.h"

void softsign_f32(const void *args) {
    const softsign_f32_args_t *p = args;
    for (uint32_t i = hal_core_id(); i < p->n; i += hal_core_count()) p->y[i] = p->x[i] / (1.0f + __builtin_fabsf(p->x[i]));
}
