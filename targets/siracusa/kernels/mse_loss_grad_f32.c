/* dpred = scale * (pred - target). */
#include "mse_loss_grad_f32.h"
#include "flat.h"

#define SCALED(a, b) "fsub.s " a ", " a ", " b "\n fmul.s " a ", " a ", %[scale]\n"

void mse_loss_grad_f32(const void *args) {
    const mse_loss_grad_f32_args_t *p = args;
    const share_t share = share_of(p->n);
    FLAT_PAIRS(SCALED, 2, p->dpred + share.begin, p->pred + share.begin, p->target + share.begin,
               share.end - share.begin, [scale] "f"(p->scale));
}
