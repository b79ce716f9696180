/* Y from 0 to below 1: the upper 24 bits of the element's word. Four elements of the whole tensor, wherever the tile
 * begins, have their words from one counter; cores take turns by such fours. */
#include "keyed_uniform_f32.h"
#include "hal.h"
#include "philox_f32.h"

void keyed_uniform_f32(const void *args) {
    const keyed_uniform_f32_args_t *p = args;
    float *y = p->y;
    const uint32_t pass = (uint32_t)*p->count, start = p->start, end = start + p->n;
    for (uint32_t block = start / 4 + hal_core_id(); block * 4 < end; block += hal_core_count()) {
        const uint32_t first = block * 4 < start ? start : block * 4, last = block * 4 + 4 < end ? block * 4 + 4 : end;
        uint32_t words[4] = {block, pass, p->stream, 0};
        philox(words, p->seed_low, p->seed_high);
        for (uint32_t i = first; i < last; i++) y[i - start] = (float)(words[i % 4] >> 8) * 0x1p-24f;
    }
}
