/* Y[o, d, i] = the second value where the whole number in ids[o, i] is d, or d - depth; else the first. */
#include "hal.h"
#include "one_hot_f32.h"
#include "share_f32.h"
#include "whole_f32.h"
#include "words.h"

void one_hot_f32(const void *args) {
    const one_hot_f32_args_t *p = args;
    const share_t share = share_of(p->o * p->d * p->i);
    for (uint32_t at = share.begin; at < share.end; at++) {
        const uint32_t line = at / p->i, i = at - line * p->i, o = line / p->d, d = line - o * p->d;
        const float number = truncf_f32(p->ids[o * p->ids_o + i]), place = (float)(p->d_start + d);
        const uint32_t is_on = number == place || number + p->depth == place;
        move_word(&p->y[o * p->y_o + d * p->y_d + i], &p->values[is_on]);
    }
}
