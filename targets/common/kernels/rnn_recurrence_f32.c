/* Steps of a plain recurrent layer: h' = f(x + R h). Step n reads place n mod 2 of the state and writes the other. */
#include "rnn_recurrence_f32.h"
#include "activation_f32.h"
#include "math_f32.h"
#include "recurrence_f32.h"

static inline void unit_of_step(const rnn_recurrence_f32_args_t *p, uint32_t step, uint32_t row, uint32_t b, uint32_t u) {
    const uint32_t unit = p->first_unit + u, at = b * p->hidden + unit, now = (step & 1) * p->state_p;
    const float *h = step ? p->state + now + b * p->hidden : p->h ? p->h + b * p->hidden : 0;
    float sum = 0.0f;
    if (h) gate_products(&sum, 1, h, 0, p->r + u * p->hidden, 0, 1, p->hidden);
    sum = p->x[row * p->x_t + b * p->x_b + u] + sum;
    const float y = p->relu ? relu_f32_of(sum) : tanhf_f32(sum);
    if (p->before) p->before[row * p->before_t + b * p->before_b + u] = h ? h[unit] : 0.0f;
    if (p->y) p->y[row * p->y_t + b * p->y_b + u] = y;
    if (p->last && step + 1 == p->steps) p->last[at] = y;
    if (step == 0) p->state[at] = h ? h[unit] : 0.0f;
    p->state[p->state_p - now + at] = y;
}

STEPS_F32(rnn_recurrence_f32)
