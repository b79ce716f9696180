/* y = scale * sum(h(pred - target)) / count with h(d) = d^2 / 2 up to delta, and delta (|d| - delta / 2) beyond. */
#include "huber_loss_f32.h"
#include "huber_slope_f32.h"
#include "mean_loss_f32.h"

static inline float term(const huber_loss_f32_args_t *p, float pred, float target) {
    const float d = __builtin_fabsf(pred - target);
    return p->scale * (d <= p->delta ? 0.5f * d * d : p->delta * (d - 0.5f * p->delta));
}

static inline float slope(const huber_loss_f32_args_t *p, float pred, float target) {
    return huber_slope(pred, target, p->delta);
}

MEAN_LOSS_F32(huber_loss_f32, term, slope)
