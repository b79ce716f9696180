/* y = before + the total of the groups of a long sum, in the order of sum_f32.h, on one core. */
#include "group_total_f32.h"
#include "hal.h"
#include "sum_f32.h"

void group_total_f32(const void *args) {
    const group_total_f32_args_t *p = args;
    if (hal_core_id() != 0) return;
    sum_t sum = {0};
    for (uint32_t i = 0; i < p->n; i++) {
        sum.group = p->x[i];
        if (i + 1 < p->n) sum_close(&sum);
    }
    const float total = sum_value(&sum, SUM_BLOCK);
    *p->y = p->before ? *p->before + total : total;
}
