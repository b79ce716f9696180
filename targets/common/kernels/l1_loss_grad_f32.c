/* dpred = scale * sign(pred - target), 0 where both are equal. */
#include "l1_loss_grad_f32.h"
#include "l1_slope_f32.h"
#include "mean_loss_f32.h"

static inline float slope(const l1_loss_grad_f32_args_t *p, float pred, float target) {
    (void)p;
    return l1_slope(pred, target);
}

MEAN_LOSS_GRAD_F32(l1_loss_grad_f32, slope)
