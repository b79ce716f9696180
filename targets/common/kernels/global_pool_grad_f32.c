/* dX = dY / count for each of the s elements of a channel; zero where the gate, Y of a Relu, is not above zero. */
#include "global_pool_grad_f32.h"
#include "activation_f32.h"
#include "hal.h"
#include "share_f32.h"

void global_pool_grad_f32(const void *args) {
    const global_pool_grad_f32_args_t *p = args;
    const share_t share = share_of(p->c * p->s);
    for (uint32_t i = share.begin; i < share.end;) {
        const uint32_t c = i / p->s, first = i - c * p->s, left = p->s - first;
        const uint32_t run = left < share.end - i ? left : share.end - i;
        const float value = p->dy[c] / p->count;
        float *dx = p->dx + c * p->dx_c + first;
        if (p->gate) {
            const float *gate = p->gate + c * p->gate_c + first;
            for (uint32_t k = 0; k < run; k++) dx[k] = gated_f32(value, gate[k]);
        } else
            for (uint32_t k = 0; k < run; k++) dx[k] = value;
        i += run;
    }
}
