/* dpred = scale * (pred - target) / (pred (1 - pred)), where the divisor is at least least. */
#include "bce_loss_grad_f32.h"
#include "mean_loss_f32.h"
#include "quotient_f32.h"

static inline float slope(const bce_loss_grad_f32_args_t *p, float pred, float target) {
    const float product = (1.0f - pred) * pred;
    return QUOTIENT_F32(pred - target, product < p->least ? p->least : product);
}

MEAN_LOSS_GRAD_F32(bce_loss_grad_f32, slope)
