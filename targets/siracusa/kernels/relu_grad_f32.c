/* dX = dY where Y > 0, else 0. */
#include "relu_grad_f32.h"
#include "gate.h"
#include "hal.h"
#include "share_f32.h"

void relu_grad_f32(const void *args) {
    const relu_grad_f32_args_t *p = args;
    const share_t share = share_of(p->n);
    gate_line(p->dx + share.begin, p->dy + share.begin, p->y + share.begin, share.end - share.begin);
}
