/* Y[o, k, i] = X[o, ids[k], i], from the tile's rows of X; of rows that lie in other tiles Y has what it had. A number that is
 * no row gives NaN. */
#include "gather_f32.h"
#include "hal.h"
#include "lines_f32.h"
#include "share_f32.h"
#include "table_row.h"

void gather_f32(const void *args) {
    const gather_f32_args_t *p = args;
    const share_t share = share_of(p->o * p->k * p->i);
    const uint32_t line = share.begin / p->i;
    uint32_t first = share.begin - line * p->i, o = line / p->k, k = line - o * p->k;
    for (uint32_t left = share.end - share.begin, run; left > 0; left -= run, first = 0) {
        const uint32_t row = table_row(p->ids[k], p->rows) - p->r_start;
        float *y = p->y + o * p->y_o + k * p->y_k + first;
        run = hal_min(p->i - first, left);
        if (row < p->r)
            copy_line_f32(y, p->x + o * p->x_o + row * p->x_r + first, 1, run);
        else if (p->first)
            fill_line_f32(y, __builtin_nanf(""), run);
        if (++k == p->k) k = 0, o++;
    }
}
