/* dpred = scale * (1 / (1 + exp(-pred)) - target), by a power that is at most 1. */
#include "bce_logits_loss_grad_f32.h"
#include "bce_logits_slope_f32.h"
#include "mean_loss_f32.h"

static inline float slope(const bce_logits_loss_grad_f32_args_t *p, float pred, float target) {
    (void)p;
    return bce_logits_slope(pred, target);
}

MEAN_LOSS_GRAD_F32(bce_logits_loss_grad_f32, slope)
