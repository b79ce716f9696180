/* Steps of a GRU's gradient, the last one first: what arrives at h, by Y, past R and through it, times the slopes of the
 * gates. The two places of the state hold the gradient of R h of a step: step n reads place n mod 2. */
#include "gru_recurrence_grad_f32.h"
#include "math_f32.h"
#include "recurrence_f32.h"

typedef struct {
    const gru_recurrence_grad_f32_args_t *p;
    uint32_t step, row, b;
} step_t;

static inline void unit_of_step(const step_t *s, uint32_t u) {
    const gru_recurrence_grad_f32_args_t *p = s->p;
    const uint32_t unit = p->first_unit + u, at = s->b * p->hidden + unit, wide = s->b * 3 * p->hidden;
    const uint32_t now = (s->step & 1) * p->state_p;
    float sums[3] = {0.0f, 0.0f, 0.0f}, dh = state_or_zero(p->dlast, at);
    if (s->step) {
        const float *dq = p->state + now + wide, *r = p->r + u;
        gate_products(sums, 3, dq, p->hidden, r, p->r_g, p->r_h, p->hidden);
        dh = ((sums[0] + sums[1]) + sums[2]) + p->dh[at];
    }
    if (p->dy) dh += p->dy[s->row * p->dy_t + s->b * p->dy_b + u];
    const float *gates = p->gates + s->row * p->gates_t + s->b * p->gates_b + u;
    const float z = gates[0], r = gates[p->gates_s], n = gates[2 * p->gates_s], gated = gates[3 * p->gates_s];
    const float h = p->before[s->row * p->before_t + s->b * p->before_b + u];
    const float dn = dh * (1.0f - z) * __builtin_fmaf(-n, n, 1.0f), dz = dh * (h - n) * (z * (1.0f - z));
    const float dr = dn * gated * (r * (1.0f - r)), of_x[3] = {dz, dr, dn}, of_state[3] = {dz, dr, dn * r};
    float *dx = p->dx + s->row * p->dx_t + s->b * p->dx_b + u, *place = p->state + wide + unit;
    float *dq = p->dq + s->row * p->dq_t + s->b * p->dq_b + u;
    for (uint32_t k = 0; k < 3; k++) {
        dx[k * p->dx_g] = of_x[k];
        dq[k * p->dq_g] = of_state[k];
        if (s->step == 0) place[k * p->hidden] = 0.0f;
        place[p->state_p - now + k * p->hidden] = of_state[k];
    }
    p->dh[at] = dh * z;
}

void gru_recurrence_grad_f32(const void *args) {
    const gru_recurrence_grad_f32_args_t *p = args;
    const share_t share = step_share(p->time, p->batch, p->unit);
    for (uint32_t t = 0; t < p->time; t++) {
        step_t s = {p, p->start + t, step_row(t, p->time, p->mirrored), 0};
        for (uint32_t i = share.begin; i < share.end; i++) {
            s.b = i / p->unit;
            unit_of_step(&s, i % p->unit);
        }
    }
}
