/* y = sum(|pred - target|) / count. */
#include "l1_loss_f32.h"
#include "l1_slope_f32.h"
#include "mean_loss_f32.h"

static inline float term(const l1_loss_f32_args_t *p, float pred, float target) {
    (void)p;
    return __builtin_fabsf(pred - target);
}

static inline float slope(const l1_loss_f32_args_t *p, float pred, float target) {
    (void)p;
    return l1_slope(pred, target);
}

MEAN_LOSS_F32(l1_loss_f32, term, slope)
