/* y = sum(target (log(target) - pred)) / count; a target of 0 adds nothing. */
#include "kl_div_loss_f32.h"
#include "mean_loss_f32.h"
#include "math_f32.h"

static inline float term(const kl_div_loss_f32_args_t *p, float pred, float target) {
    (void)p;
    return target == 0.0f ? 0.0f : target * (logf_f32(target) - pred);
}

static inline float slope(const kl_div_loss_f32_args_t *p, float pred, float target) {
    (void)p;
    (void)pred;
    return -target;
}

MEAN_LOSS_F32(kl_div_loss_f32, term, slope)
