/* dpred = scale * (pred - target) / (pred (1 - pred)), where the divisor is at least least. */
#include "bce_loss_grad_f32.h"
#include "bce_slope_f32.h"
#include "mean_loss_f32.h"

static inline float slope(const bce_loss_grad_f32_args_t *p, float pred, float target) {
    return bce_slope(pred, target, p->least);
}

MEAN_LOSS_GRAD_F32(bce_loss_grad_f32, slope)
