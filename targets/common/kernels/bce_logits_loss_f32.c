/* y = sum(max(x, 0) - x target + log(1 + exp(-|x|))) / count, with x for pred: no power is infinite. */
#include "bce_logits_loss_f32.h"
#include "bce_logits_slope_f32.h"
#include "mean_loss_f32.h"
#include "math_f32.h"

static inline float term(const bce_logits_loss_f32_args_t *p, float x, float target) {
    (void)p;
    const float linear = x > 0.0f ? x * (1.0f - target) : -x * target;
    return linear + log1pf_f32(expf_f32(-__builtin_fabsf(x)));
}

static inline float slope(const bce_logits_loss_f32_args_t *p, float pred, float target) {
    (void)p;
    return bce_logits_slope(pred, target);
}

MEAN_LOSS_F32(bce_logits_loss_f32, term, slope)
