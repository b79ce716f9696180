/* dX = 0, then each window, in ascending order, adds its dY to its first maximum of X, where that is in the tile; gated, where
 * it is above zero besides. */
#include "max_pool_grad_f32.h"

static inline void add_to(float *dx, float dy) { *dx += dy; }

#include "max_pool_grad.h"

void max_pool_grad_f32(const void *args) {
    const max_pool_grad_f32_args_t *p = args;
    const share_t share = share_of(p->c * p->h);
    for (uint32_t i = share.begin, rows; i < share.end; i += rows) {
        const uint32_t c = i / p->h, row = i - c * p->h;
        const float *dy = p->dy + c * p->dy_c, *x = p->x + c * p->x_c;
        float *dx = p->dx + c * p->dx_c + row * p->dx_r;
        rows = rows_from(row, p->h, share.end - i);
        clear_rows(dx, rows, p->w, p->dx_r);
        int32_t above = -p->top;
        for (uint32_t h = 0; h < p->y_h; h++, dy += p->dy_r, above += (int32_t)p->stride_h)
            add_windows(p, dy, x, dx, above, row, rows, 0, p->y_w);
    }
}
