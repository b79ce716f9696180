/* Y = (A - zero) * ratio + (B - zero) * ratio, rounded half to even and clipped. */
#include "add_i8.h"
#include "hal.h"
#include "requantize_i8.h"
#include "share_f32.h"

void add_i8(const void *args) {
    const add_i8_args_t *p = args;
    const share_t share = share_of(p->n);
    const float low = p->low, high = p->high;
    for (uint32_t i = share.begin; i < share.end; i++) {
        const float a = (float)(p->a[i] - p->a_zero) * p->a_ratio, b = (float)(p->b[i] - p->b_zero) * p->b_ratio;
        p->y[i] = rounded_i8(a + b, low, high, p->zero);
    }
}
