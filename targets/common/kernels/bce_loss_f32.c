/* y = -sum(target log(pred) + (1 - target) log(1 - pred)) / count, where no logarithm counts below floor. */
#include "bce_loss_f32.h"
#include "bce_slope_f32.h"
#include "mean_loss_f32.h"
#include "math_f32.h"

static inline float at_least(float x, float floor) {
    return x < floor ? floor : x;
}

static inline float term(const bce_loss_f32_args_t *p, float pred, float target) {
    const float no = at_least(log1pf_f32(-pred), p->floor), yes = at_least(logf_f32(pred), p->floor);
    return -__builtin_fmaf(target, yes, (1.0f - target) * no);
}

static inline float slope(const bce_loss_f32_args_t *p, float pred, float target) {
    return bce_slope(pred, target, p->least);
}

MEAN_LOSS_F32(bce_loss_f32, term, slope)
