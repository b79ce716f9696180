/* Y = X / scale, rounded half to even and clipped. */
#include "quantize_i8.h"
#include "hal.h"
#include "requantize_i8.h"
#include "share_f32.h"

void quantize_i8(const void *args) {
    const quantize_i8_args_t *p = args;
    const share_t share = share_of(p->n);
    const float scale = p->scale, low = p->low, high = p->high;
    for (uint32_t i = share.begin; i < share.end; i++) p->y[i] = rounded_i8(p->x[i] / scale, low, high, p->zero);
}
