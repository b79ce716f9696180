/* Steps of an LSTM's gradient, the last one first: dh = dy + R^T dx of the step before in this order, then what arrives at
 * each gate times its slope. The two places of the state hold dx of a step: step n reads place n mod 2. */
#include "lstm_recurrence_grad_f32.h"
#include "math_f32.h"
#include "recurrence_f32.h"

static inline void unit_of_step(const lstm_recurrence_grad_f32_args_t *p, uint32_t step, uint32_t row, uint32_t b, uint32_t u) {
    const uint32_t unit = p->first_unit + u, at = b * p->hidden + unit, now = (step & 1) * p->state_p;
    const uint32_t wide = b * 4 * p->hidden;
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f}, dh = state_or_zero(p->dlast, at), dc = state_or_zero(p->dcell, at);
    if (step) {
        gate_products(sums, 4, p->state + now + wide, p->hidden, p->r + u, p->r_g, p->r_h, p->hidden);
        dh = ((sums[0] + sums[1]) + sums[2]) + sums[3];
        dc = p->dc[at];
    }
    if (p->dy) dh += p->dy[row * p->dy_t + b * p->dy_b + u];
    const float *gates = p->gates + row * p->gates_t + b * p->gates_b + u;
    const float i = gates[0], o = gates[p->gates_s], f = gates[2 * p->gates_s], g = gates[3 * p->gates_s];
    const float c = p->cell_before[row * p->cell_before_t + b * p->cell_before_b + u];
    const float tangent = tanhf_f32(__builtin_fmaf(f, c, i * g)); /* of the same cell as forward */
    dc = __builtin_fmaf(dh * o, __builtin_fmaf(-tangent, tangent, 1.0f), dc);
    const float parts[4] = {dc * g * (i * (1.0f - i)), dh * tangent * (o * (1.0f - o)), dc * c * (f * (1.0f - f)),
                            dc * i * __builtin_fmaf(-g, g, 1.0f)};
    float *dx = p->dx + row * p->dx_t + b * p->dx_b + u, *place = p->state + wide + unit;
    for (uint32_t k = 0; k < 4; k++) {
        dx[k * p->dx_g] = parts[k];
        if (step == 0) place[k * p->hidden] = 0.0f;
        place[p->state_p - now + k * p->hidden] = parts[k];
    }
    p->dc[at] = dc * f;
}

STEPS_F32(lstm_recurrence_grad_f32)
