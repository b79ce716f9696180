/* Steps of a GRU's gradient, the last one first: what arrives at h, by Y, past R and through it, times the slopes of the
 * gates. The two places of the state hold the gradient of R h of a step: step n reads place n mod 2. */
#include "gru_recurrence_grad_f32.h"
#include "math_f32.h"
#include "recurrence_f32.h"

static inline void unit_of_step(const gru_recurrence_grad_f32_args_t *p, uint32_t step, uint32_t row, uint32_t b,
                                uint32_t u) {
    const uint32_t unit = p->first_unit + u, at = b * p->hidden + unit, wide = b * 3 * p->hidden;
    const uint32_t now = (step & 1) * p->state_p;
    float sums[3] = {0.0f, 0.0f, 0.0f}, dh = state_or_zero(p->dlast, at);
    if (step) {
        const float *dq = p->state + now + wide, *r = p->r + u;
        gate_products(sums, 3, dq, p->hidden, r, p->r_g, p->r_h, p->hidden);
        dh = ((sums[0] + sums[1]) + sums[2]) + p->dh[at];
    }
    if (p->dy) dh += p->dy[row * p->dy_t + b * p->dy_b + u];
    const float *gates = p->gates + row * p->gates_t + b * p->gates_b + u;
    const float z = gates[0], r = gates[p->gates_s], n = gates[2 * p->gates_s], gated = gates[3 * p->gates_s];
    const float h = p->before[row * p->before_t + b * p->before_b + u];
    const float dn = dh * (1.0f - z) * __builtin_fmaf(-n, n, 1.0f), dz = dh * (h - n) * (z * (1.0f - z));
    const float dr = dn * gated * (r * (1.0f - r)), of_x[3] = {dz, dr, dn}, of_state[3] = {dz, dr, dn * r};
    float *dx = p->dx + row * p->dx_t + b * p->dx_b + u, *place = p->state + wide + unit;
    float *dq = p->dq + row * p->dq_t + b * p->dq_b + u;
    for (uint32_t k = 0; k < 3; k++) {
        dx[k * p->dx_g] = of_x[k];
        dq[k * p->dq_g] = of_state[k];
        if (step == 0) place[k * p->hidden] = 0.0f;
        place[p->state_p - now + k * p->hidden] = of_state[k];
    }
    p->dh[at] = dh * z;
}

STEPS_F32(gru_recurrence_grad_f32)
