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
    const uint32_t i_count = p->i, k_count = p->k, rows = p->rows, r = p->r, r_start = p->r_start;
    const uint32_t x_o = p->x_o, x_r = p->x_r, ids_o = p->ids_o, ids_k = p->ids_k, ids_i = p->ids_i;
    for (uint32_t at = share.begin; at < share.end; at++) {
        const uint32_t line = at / i_count, i = at - line * i_count, o = line / k_count, k = line - o * k_count;
        const uint32_t row = table_row(p->ids[o * ids_o + k * ids_k + i * ids_i], rows) - r_start;
        float *y = p->y + o * p->y_o + k * p->y_k + i;
        if (row < r)
            move_word(y, &p->x[o * x_o + row * x_r + i]);
        else if (p->first)
            *y = __builtin_nanf("");
    }
}
