/* Y = round(x_scale / (y_scale * count) * (sum of a window's X - zero)), channels innermost. */
#include "average_pool_i8.h"
#include "hal.h"
#include "requantize_i8.h"
#include "share_f32.h"
#include "taps_f32.h"

void average_pool_i8(const void *args) {
    const average_pool_i8_args_t *p = args;
    const share_t share = share_of(p->n * p->oh * p->ow * p->m);
    for (uint32_t i = share.begin; i < share.end; i++) {
        const uint32_t m = i % p->m, place = i / p->m, ow = place % p->ow, line = place / p->ow;
        const uint32_t oh = line % p->oh, n = line / p->oh;
        const int32_t top = p->top + (int32_t)(oh * p->sh), left = p->left + (int32_t)(ow * p->sw);
        const share_t rows = taps_inside(top, p->kh, p->dh, p->x_rows), columns = taps_inside(left, p->kw, p->dw, p->x_cols);
        const int8_t *x = p->x + n * p->x_n + m;
        const uint32_t inside = (rows.end - rows.begin) * (columns.end - columns.begin);
        int32_t sum = -p->x_zero * (int32_t)inside;
        for (uint32_t a = rows.begin; a < rows.end; a++)
            for (uint32_t b = columns.begin; b < columns.end; b++)
                sum += x[(uint32_t)(top + (int32_t)(a * p->dh)) * p->x_h + (uint32_t)(left + (int32_t)(b * p->dw)) * p->x_w];
        const float ratio = p->x_scale / (p->y_scale * (float)(p->all_taps ? p->all_taps : inside));
        p->y[n * p->y_n + oh * p->y_h + ow * p->y_w + m] = rounded_i8((float)sum * ratio, p->low, p->high, p->zero);
    }
}
