/* The sums of the squares of groups of a long sum, each as sum_f32.h has it; the last one may be shorter. A core has whole groups. */
#include "square_groups_f32.h"
#include "hal.h"
#include "share_f32.h"
#include "sum_f32.h"

void square_groups_f32(const void *args) {
    const square_groups_f32_args_t *p = args;
    const share_t share = share_of(p->groups);
    for (uint32_t g = share.begin; g < share.end; g++) {
        const uint32_t begin = g * GROUP_LENGTH, left = p->n - begin;
        const uint32_t end = begin + (left < GROUP_LENGTH ? left : GROUP_LENGTH);
        float group = 0.0f;
        for (uint32_t i = begin; i < end;) {
            float block = 0.0f;
            for (const uint32_t stop = end - i < SUM_BLOCK ? end : i + SUM_BLOCK; i < stop; i++)
                block = __builtin_fmaf(p->x[i], p->x[i], block);
            group += block;
        }
        p->y[g] = group;
    }
}
