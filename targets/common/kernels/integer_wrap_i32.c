/* Y = the lowest bits of X, as a number from 0 on, or with a sign. */
#include "hal.h"
#include "integer_wrap_i32.h"
#include "share_f32.h"

void integer_wrap_i32(const void *args) {
    const integer_wrap_i32_args_t *p = args;
    const share_t share = share_of(p->n);
    const uint32_t above = 1u << p->bits, sign = p->is_signed ? above >> 1 : 0;
    for (uint32_t i = share.begin; i < share.end; i++)
        p->y[i] = (int32_t)((((uint32_t)p->x[i] + sign) & (above - 1)) - sign);
}
