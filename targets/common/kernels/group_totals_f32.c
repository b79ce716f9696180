/* The total of the groups of each row, in the order of sum_f32.h, and the sum of its picks, of which at most one is not 0. */
#include "group_totals_f32.h"
#include "hal.h"
#include "share_f32.h"
#include "sum_f32.h"

void group_totals_f32(const void *args) {
    const group_totals_f32_args_t *p = args;
    const share_t share = share_of(p->n * p->d);
    for (uint32_t i = share.begin; i < share.end; i++) {
        const uint32_t d = i % p->d, n = i / p->d;
        sum_t sum = {0};
        float pick = 0.0f;
        for (uint32_t g = 0; g < p->g; g++) {
            sum.group = p->sums[n * p->s_n + g * p->s_g + d];
            if (g + 1 < p->g) sum_close(&sum);
            pick += p->picks[n * p->p_n + g * p->p_g + d];
        }
        p->total[n * p->t_n + d] = sum_value(&sum, SUM_BLOCK);
        p->pick[n * p->y_n + d] = pick;
    }
}
