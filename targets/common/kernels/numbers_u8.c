/* Y = X - 128. */
#include "numbers_u8.h"
#include "hal.h"
#include "share_f32.h"

void numbers_u8(const void *args) {
    const numbers_u8_args_t *p = args;
    const share_t share = share_of(p->n);
    const uint8_t *x = p->x;
    int8_t *y = p->y;
    for (uint32_t i = share.begin; i < share.end; i++) y[i] = (int8_t)(x[i] - 128);
}
