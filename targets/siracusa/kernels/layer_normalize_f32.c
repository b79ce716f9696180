/* Y = ((X - mean) inv_std + rest) scale + bias, with mean, inv_std and rest of a row, scale and bias of a column; bias and rest
 * may be absent; then Relu, where fused. */
#include "layer_normalize_f32.h"
#include "hal.h"
#include "layer_row.h"
#include "share_f32.h"

void layer_normalize_f32(const void *args) {
    const layer_normalize_f32_args_t *p = args;
    const share_t share = share_of(p->r * p->c);
    uint32_t r = share.begin / p->c, first = share.begin - r * p->c;
    for (uint32_t left = share.end - share.begin, run; left > 0; left -= run, first = 0, r++) {
        const float *x = p->x + r * p->x_r + first;
        float *y = p->y + r * p->y_r + first;
        const float *const bias = p->bias ? p->bias + first : 0, rest = p->rest ? p->rest[r] : 0.0f;
        run = hal_min(left, p->c - first);
        normalize_row(y, x, p->scale + first, bias, p->mean[r], p->inv_std[r], rest, run, p->relu);
    }
}
