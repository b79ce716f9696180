/* Y = the largest X of each window, channels innermost. */
#include "max_pool_i8.h"
#include "hal.h"
#include "share_f32.h"
#include "taps_f32.h"

void max_pool_i8(const void *args) {
    const max_pool_i8_args_t *p = args;
    const share_t share = share_of(p->n * p->oh * p->ow);
    for (uint32_t i = share.begin; i < share.end; i++) {
        const uint32_t ow = i % p->ow, line = i / p->ow, oh = line % p->oh, n = line / p->oh;
        const int32_t top = p->top + (int32_t)(oh * p->sh), left = p->left + (int32_t)(ow * p->sw);
        const share_t rows = taps_inside(top, p->kh, p->dh, p->x_rows), columns = taps_inside(left, p->kw, p->dw, p->x_cols);
        int8_t *y = p->y + n * p->y_n + oh * p->y_h + ow * p->y_w;
        for (uint32_t m = 0; m < p->m; m++) y[m] = -128;
        for (uint32_t a = rows.begin; a < rows.end; a++)
            for (uint32_t b = columns.begin; b < columns.end; b++) {
                const int8_t *x = p->x + n * p->x_n + (uint32_t)(top + (int32_t)(a * p->dh)) * p->x_h +
                                  (uint32_t)(left + (int32_t)(b * p->dw)) * p->x_w;
                for (uint32_t m = 0; m < p->m; m++) y[m] = x[m] > y[m] ? x[m] : y[m];
            }
    }
}
