/* Steps of an LSTM: i, o, f = sigmoid(x + R h), g = tanh(x + R h), c' = f c + i g, h' = o tanh(c'). The two places of the
 * state take turns: step n reads place n mod 2. */
#include "lstm_recurrence_f32.h"
#include "math_f32.h"
#include "recurrence_f32.h"

static inline void unit_of_step(const lstm_recurrence_f32_args_t *p, uint32_t step, uint32_t row, uint32_t b, uint32_t u) {
    const uint32_t unit = p->first_unit + u, at = b * p->hidden + unit, now = (step & 1) * p->state_p;
    const float *h = step ? p->state + now + b * p->hidden : p->h ? p->h + b * p->hidden : 0;
    const float *x = p->x + row * p->x_t + b * p->x_b + u;
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (h) gate_products(sums, 4, h, 0, p->r + u * p->hidden, p->r_g, 1, p->hidden);
    const float i = sigmoidf_f32(x[0] + sums[0]), o = sigmoidf_f32(x[p->x_g] + sums[1]);
    const float f = sigmoidf_f32(x[2 * p->x_g] + sums[2]), g = tanhf_f32(x[3 * p->x_g] + sums[3]);
    const float c = step ? p->cell[at] : state_or_zero(p->c, at), cell = __builtin_fmaf(f, c, i * g);
    const float y = o * tanhf_f32(cell);
    if (p->gates) {
        float *gates = p->gates + row * p->gates_t + b * p->gates_b + u;
        gates[0] = i;
        gates[p->gates_s] = o;
        gates[2 * p->gates_s] = f;
        gates[3 * p->gates_s] = g;
    }
    if (p->before) p->before[row * p->before_t + b * p->before_b + u] = h ? h[unit] : 0.0f;
    if (p->cell_before) p->cell_before[row * p->cell_before_t + b * p->cell_before_b + u] = c;
    if (p->y) p->y[row * p->y_t + b * p->y_b + u] = y;
    if (p->last && step + 1 == p->steps) p->last[at] = y;
    if (step == 0) p->state[at] = h ? h[unit] : 0.0f;
    p->state[p->state_p - now + at] = y;
    p->cell[at] = cell;
}

STEPS_F32(lstm_recurrence_f32)
