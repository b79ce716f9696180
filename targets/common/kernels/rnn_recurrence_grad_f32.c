/* Steps of a plain recurrent layer's gradient, the last one first: dx = f'(y) (dy + R^T dx of the step before in this
 * order). Step n reads place n mod 2 of the state and writes the other. */
#include "rnn_recurrence_grad_f32.h"
#include "activation_f32.h"
#include "recurrence_f32.h"

static inline void unit_of_step(const rnn_recurrence_grad_f32_args_t *p, uint32_t step, uint32_t row, uint32_t b, uint32_t u) {
    const uint32_t at = b * p->hidden + p->first_unit + u, now = (step & 1) * p->state_p;
    float dh = state_or_zero(p->dlast, at);
    if (step) gate_products(&dh, 1, p->state + now + b * p->hidden, 0, p->r + u, 0, p->r_h, p->hidden);
    if (p->dy) dh += p->dy[row * p->dy_t + b * p->dy_b + u];
    const float y = p->y[row * p->y_t + b * p->y_b + u];
    const float dx = p->relu ? gated_f32(dh, y) : dh * __builtin_fmaf(-y, y, 1.0f);
    p->dx[row * p->dx_t + b * p->dx_b + u] = dx;
    if (step == 0) p->state[at] = 0.0f;
    p->state[p->state_p - now + at] = dx;
}

STEPS_F32(rnn_recurrence_grad_f32)
