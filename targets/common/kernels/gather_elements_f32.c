/* Y[o, k, i] = X[o, ids[o, k, i], i], from the tile's rows of X; of rows that lie in other tiles Y has what it had. A number
 * that is no row gives NaN. */
#include "gather_elements_f32.h"
#include "hal.h"
#include "share_f32.h"
#include "table_row.h"
#include "words.h"

void gather_elements_f32(const void *args) {
    const gather_elements_f32_args_t *p = args;
    const share_t share = share_of(p->o * p->k * p->i);
    for (uint32_t at = share.begin; at < share.end; at++) {
        const uint32_t line = at / p->i, i = at - line * p->i, o = line / p->k, k = line - o * p->k;
        const uint32_t row = table_row(p->ids[o * p->ids_o + k * p->ids_k + i * p->ids_i], p->rows) - p->r_start;
        float *y = p->y + o * p->y_o + k * p->y_k + i;
        if (row < p->r)
            move_word(y, &p->x[o * p->x_o + row * p->x_r + i]);
        else if (p->first)
            *y = __builtin_nanf("");
    }
}
