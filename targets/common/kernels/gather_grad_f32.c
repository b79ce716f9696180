/* dX[o, r, i] = sum of dY[o, k, i] over the k with ids[k] = r, ascending. A core has columns of its own, of all rows; between
 * tiles of k the sums wait in dX. A number that is no row adds to none. */
#include "gather_grad_f32.h"
#include "hal.h"
#include "lines_f32.h"
#include "share_f32.h"
#include "table_row.h"

void gather_grad_f32(const void *args) {
    const gather_grad_f32_args_t *p = args;
    const share_t share = share_of(p->o * p->i);
    const uint32_t rows = p->rows, r_start = p->r_start, r = p->r, dx_r = p->dx_r, dy_k = p->dy_k;
    for (uint32_t at = share.begin, run; at < share.end; at += run) {
        const uint32_t o = at / p->i, first = at - o * p->i;
        float *dx = p->dx + o * p->dx_o + first;
        const float *dy = p->dy + o * p->dy_o + first;
        run = hal_min(p->i - first, share.end - at);
        if (p->first) fill_lines_f32(dx, dx_r, 0.0f, r, run);
        for (const int32_t *id = p->ids, *end = id + p->k; id < end; id++, dy += dy_k) {
            const uint32_t row = table_row(*id, rows) - r_start;
            if (row < r) add_line_f32(dx + row * dx_r, dy, run);
        }
    }
}
