/* Steps of a GRU: z, r = sigmoid(x + R h + b), n = tanh(x + r (R h + b)), h' = n + z (h - n). Step n reads place n mod 2
 * of the state. */
#include "gru_recurrence_f32.h"
#include "math_f32.h"
#include "recurrence_f32.h"

static inline void unit_of_step(const gru_recurrence_f32_args_t *p, uint32_t step, uint32_t row, uint32_t b,
                                uint32_t u) {
    const uint32_t unit = p->first_unit + u, at = b * p->hidden + unit, now = (step & 1) * p->state_p;
    const float *state = step ? p->state + now + b * p->hidden : p->h ? p->h + b * p->hidden : 0;
    const float *x = p->x + row * p->x_t + b * p->x_b + u, h = state ? state[unit] : 0.0f;
    float sums[3] = {0.0f, 0.0f, 0.0f};
    if (state) gate_products(sums, 3, state, 0, p->r + u * p->hidden, p->r_g, 1, p->hidden);
    if (p->bias)
        for (uint32_t g = 0; g < 3; g++) sums[g] += p->bias[g * p->bias_g + u];
    const float r = sigmoidf_f32(x[p->x_g] + sums[1]), n = tanhf_f32(__builtin_fmaf(r, sums[2], x[2 * p->x_g]));
    const float z = sigmoidf_f32(x[0] + sums[0]), y = __builtin_fmaf(z, h - n, n);
    if (p->gates) {
        const float of_gates[4] = {z, r, n, sums[2]};
        float *gates = p->gates + row * p->gates_t + b * p->gates_b + u;
        for (uint32_t g = 0; g < 4; g++) gates[g * p->gates_s] = of_gates[g];
    }
    if (p->before) p->before[row * p->before_t + b * p->before_b + u] = h;
    if (p->y) p->y[row * p->y_t + b * p->y_b + u] = y;
    if (p->last && step + 1 == p->steps) p->last[at] = y;
    if (step == 0) p->state[at] = h;
    p->state[p->state_p - now + at] = y;
}

STEPS_F32(gru_recurrence_f32)
