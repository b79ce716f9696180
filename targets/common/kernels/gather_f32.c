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
    for (uint32_t at = share.begin, run; at < share.end; at += run) {
        const uint32_t line = at / p->i, first = at - line * p->i, o = line / p->k, k = line - o * p->k;
        const uint32_t row = table_row(p->ids[k], p->rows) - p->r_start;
        float *y = p->y + o * p->y_o + k * p->y_k + first;
        run = p->i - first < share.end - at ? p->i - first : share.end - at;
        if (row < p->r) {
            const float *x = p->x + o * p->x_o + row * p->x_r + first;
            copy_line_f32(y, x, 1, run);
        } else if (p->first)
            fill_line_f32(y, __builtin_nanf(""), run);
    }
}
