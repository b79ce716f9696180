/* dX[n] = (product of X before n) * (dY * product of X behind n, from the end), for each row. */
#include "hal.h"
#include "reduce_prod_grad_f32.h"
#include "share_f32.h"

void reduce_prod_grad_f32(const void *args) {
    const reduce_prod_grad_f32_args_t *p = args;
    const share_t share = share_of(p->rows);
    for (uint32_t row = share.begin; row < share.end; row++) {
        const float *x = p->x + row * p->x_r;
        float *dx = p->dx + row * p->dx_r, before = 1.0f, behind = p->dy[row];
        for (uint32_t n = 0; n < p->n; n++) {
            dx[n] = before;
            before *= x[n];
        }
        for (uint32_t n = p->n; n-- > 0;) {
            dx[n] *= behind;
            behind *= x[n];
        }
    }
}
