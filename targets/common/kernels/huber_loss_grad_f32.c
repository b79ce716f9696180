/* dpred = scale * (pred - target), where the difference counts at most delta. */
#include "huber_loss_grad_f32.h"
#include "huber_slope_f32.h"
#include "mean_loss_f32.h"

static inline float slope(const huber_loss_grad_f32_args_t *p, float pred, float target) {
    return huber_slope(pred, target, p->delta);
}

MEAN_LOSS_GRAD_F32(huber_loss_grad_f32, slope)
