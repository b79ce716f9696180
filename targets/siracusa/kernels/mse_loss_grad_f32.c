/* dpred = 2 (pred - target) / count. The cluster has one divider, so instead of a division by a power of two it is
 * a product with the inverse: that is the same number before it is rounded. */
#include "mse_loss_grad_f32.h"
#include "flat.h"

#define DIFFERENCE(a, b) "fsub.s " a ", " a ", " b "\n fadd.s " a ", " a ", " a "\n"
#define SCALED(a, b) DIFFERENCE(a, b) "fmul.s " a ", " a ", %[scale]\n"
#define DIVIDED(a, b) DIFFERENCE(a, b) "fdiv.s " a ", " a ", %[scale]\n"

void mse_loss_grad_f32(const void *args) {
    const mse_loss_grad_f32_args_t *p = args;
    const share_t share = share_of(p->n);
    const float *pred = p->pred + share.begin, *target = p->target + share.begin;
    float *dpred = p->dpred + share.begin;
    const uint32_t count = share.end - share.begin;
    float inverse;
    if (inverse_of_power(p->count, &inverse))
        FLAT_PAIRS(SCALED, 3, dpred, pred, target, count, [scale] "f"(inverse));
    else
        FLAT_PAIRS(DIVIDED, 3, dpred, pred, target, count, [scale] "f"(p->count));
}
