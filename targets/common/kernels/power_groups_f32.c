/* The sum of exp(x - max) over each group of classes, in the order of sum_f32.h, and x - max of the label in its group. Cores
 * share groups. */
#include "power_groups_f32.h"
#include "hal.h"
#include "math_f32.h"
#include "share_f32.h"
#include "sum_f32.h"

void power_groups_f32(const void *args) {
    const power_groups_f32_args_t *p = args;
    const share_t share = share_of(p->n * p->g * p->d);
    for (uint32_t i = share.begin; i < share.end; i++) {
        const uint32_t d = i % p->d, g = i / p->d % p->g, n = i / p->d / p->g, x_c = p->x_c;
        const uint32_t left = p->c - g * GROUP_LENGTH, count = left < GROUP_LENGTH ? left : GROUP_LENGTH;
        const float *x = p->x + n * p->x_n + g * GROUP_LENGTH * x_c + d, max = p->max[n * p->m_n + d];
        const uint32_t label = (uint32_t)p->labels[n * p->l_n + d] - (p->g_start + g) * GROUP_LENGTH;
        float group = 0.0f;
        for (uint32_t c = 0; c < count;) {
            float block = 0.0f;
            for (const uint32_t end = count - c < SUM_BLOCK ? count : c + SUM_BLOCK; c < end; c++)
                block += expf_f32(x[c * x_c] - max);
            group += block;
        }
        p->sums[n * p->s_n + g * p->s_g + d] = group;
        p->picks[n * p->p_n + g * p->p_g + d] = label < count ? x[label * x_c] - max : 0.0f;
    }
}
