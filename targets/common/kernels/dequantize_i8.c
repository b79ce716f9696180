/* Y = (X - zero) * scale. */
#include "dequantize_i8.h"
#include "hal.h"
#include "share_f32.h"

void dequantize_i8(const void *args) {
    const dequantize_i8_args_t *p = args;
    const share_t share = share_of(p->n);
    for (uint32_t i = share.begin; i < share.end; i++) p->y[i] = (float)(p->x[i] - p->zero) * p->scale;
}
