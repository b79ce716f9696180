/* What is fused to a sum: Relu, and the gradient of one, each core on its share as binary_f32.h deals it. */
#ifndef ADD_EPILOGUE_F32_H
#define ADD_EPILOGUE_F32_H

#include "activation_f32.h"
#include "add_f32.h"
#include "share_f32.h"

static inline void add_epilogue_f32(const add_f32_args_t *p) {
    const share_t share = share_of(p->n0 * p->n1 * p->n2 * p->n3);
    for (uint32_t i = share.begin, run; i < share.end; i += run) {
        const uint32_t i012 = i / p->n3, i3 = i - i012 * p->n3, i01 = i012 / p->n2, i2 = i012 - i01 * p->n2;
        const uint32_t i0 = i01 / p->n1, i1 = i01 - i0 * p->n1;
        float *y = p->y + i0 * p->y0 + i1 * p->y1 + i2 * p->y2 + i3 * p->y3;
        run = p->n3 - i3 < share.end - i ? p->n3 - i3 : share.end - i;
        if (p->relu)
            for (uint32_t j = 0; j < run; j++) y[j] = relu_f32_of(y[j]);
        if (!p->gate) continue;
        const float *gate = p->gate + i0 * p->gate0 + i1 * p->gate1 + i2 * p->gate2 + i3 * p->gate3;
        for (uint32_t j = 0; j < run; j++) y[j] = gated_f32(y[j], gate[j]);
    }
}

#endif
