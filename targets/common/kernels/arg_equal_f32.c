/* Y = the first r at which X equals the value of its line, or the last; -1 where none does. NaN equals any value. Between
 * tiles of r what was found waits in Y. */
#include "arg_equal_f32.h"
#include "hal.h"
#include "share_f32.h"

void arg_equal_f32(const void *args) {
    const arg_equal_f32_args_t *p = args;
    const share_t share = share_of(p->o * p->i);
    for (uint32_t at = share.begin; at < share.end; at++) {
        const uint32_t o = at / p->i, i = at - o * p->i;
        const float *x = p->x + o * p->x_o + i, value = p->value[o * p->value_o + i];
        int32_t *y = p->y + o * p->y_o + i, found = p->first ? -1 : *y;
        for (uint32_t r = 0; r < p->r && (found < 0 || p->latest); r++, x += p->x_r)
            if (*x == value || *x != *x) found = (int32_t)(p->r_start + r);
        *y = found;
    }
}
