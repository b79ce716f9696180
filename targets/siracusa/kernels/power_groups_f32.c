/* The sum of exp(x - max) over each group of classes, in the order of sum_f32.h, and x - max of the label in its group. Cores
 * share groups; the powers themselves go to one word of a core's stack. */
#include "power_groups_f32.h"
#include "flat.h"
#include "row_powers.h"

void power_groups_f32(const void *args) {
    const power_groups_f32_args_t *p = args;
    const share_t share = share_of(p->n * p->g * p->d);
    const uint32_t groups = p->g, x_c = p->x_c;
    for (uint32_t i = share.begin; i < share.end; i++) {
        const uint32_t row = p->d > 1 ? i / p->d : i, d = i - row * p->d, n = row < groups ? 0 : row / groups;
        const uint32_t g = row - n * groups, count = hal_min(p->c - g * GROUP_LENGTH, GROUP_LENGTH);
        const float *const x = p->x + n * p->x_n + g * GROUP_LENGTH * x_c + d, max = p->max[n * p->m_n + d];
        const uint32_t label = (uint32_t)p->labels[n * p->l_n + d] - (p->g_start + g) * GROUP_LENGTH;
        const float *at = x;
        uint32_t least = NO_POWER;
        float group = 0.0f;
        for (uint32_t left = count; left > 0;) {
            const uint32_t part = hal_min(left, SUM_BLOCK);
            float block = 0.0f, power, *to = &power;
            ADD_POWERS("", 0, block, to, 0, at, x_c, part, max, max, least);
            group += block;
            left -= part;
        }
        p->sums[n * p->s_n + g * p->s_g + d] = group;
        p->picks[n * p->p_n + g * p->p_g + d] = label < count ? x[label * x_c] - max : 0.0f;
    }
}
