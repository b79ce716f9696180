/* dpred = scale * (1 / (1 + exp(-pred)) - target), by a power that is at most 1. */
#include "bce_logits_loss_grad_f32.h"
#include "mean_loss_f32.h"
#include "math_f32.h"

static inline float slope(const bce_logits_loss_grad_f32_args_t *p, float x, float target) {
    (void)p;
    const float power = expf_f32(-__builtin_fabsf(x)), less = QUOTIENT_F32(power, 1.0f + power);
    return x >= 0.0f ? (1.0f - target) - less : less - target;
}

MEAN_LOSS_GRAD_F32(bce_logits_loss_grad_f32, slope)
