/* cache[o, begin + r, i] = rows[o, r, i] where that row lies in the tile, and what it had elsewhere; neighbouring lines o belong
 * to one sequence. */
#include "cache_update_f32.h"
#include "hal.h"
#include "lines_f32.h"
#include "share_f32.h"

void cache_update_f32(const void *args) {
    const cache_update_f32_args_t *p = args;
    const share_t share = share_of(p->o * p->count);
    for (uint32_t line = share.begin; line < share.end; line++) {
        const uint32_t o = line / p->count, r = line - o * p->count;
        const uint32_t row = (uint32_t)p->begin[(p->o_start + o) / p->lines] + r - p->t_start;
        if (row < p->t) copy_line_f32(p->cache + o * p->cache_o + row * p->cache_t, p->rows + o * p->rows_o + r * p->rows_t, 1, p->i);
    }
}
