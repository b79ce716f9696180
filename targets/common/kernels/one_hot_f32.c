/* Y[o, d, i] = the second value where the whole number in ids[o, i] is d, or d - depth; else the first. */
#include "hal.h"
#include "one_hot_f32.h"
#include "share_f32.h"
#include "whole_f32.h"
#include "words.h"

void one_hot_f32(const void *args) {
    const one_hot_f32_args_t *p = args;
    const share_t share = share_of(p->o * p->d * p->i);
    const word_t off = word_at(&p->values[0]), on = word_at(&p->values[1]);
    const uint32_t i_count = p->i, d_count = p->d, d_start = p->d_start, ids_o = p->ids_o, y_o = p->y_o, y_d = p->y_d;
    const float *ids = p->ids, depth = p->depth;
    float *y = p->y;
    for (uint32_t at = share.begin; at < share.end; at++) {
        const uint32_t line = at / i_count, i = at - line * i_count, o = line / d_count, d = line - o * d_count;
        const float number = truncf_f32(ids[o * ids_o + i]), place = (float)(d_start + d);
        set_word(&y[o * y_o + d * y_d + i], number == place || number + depth == place ? on : off);
    }
}
