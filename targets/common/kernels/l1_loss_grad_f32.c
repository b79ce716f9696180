/* dpred = scale * sign(pred - target), 0 where both are equal. */
#include "l1_loss_grad_f32.h"
#include "mean_loss_f32.h"

static inline float slope(const l1_loss_grad_f32_args_t *p, float pred, float target) {
    (void)p;
    const float difference = pred - target;
    return difference > 0.0f ? 1.0f : difference < 0.0f ? -1.0f : difference;
}

MEAN_LOSS_GRAD_F32(l1_loss_grad_f32, slope)
