/* Steps of the gradient of a GRU whose reset gate is on the state, the last one first, gate by gate: what arrives at h
 * through R of z, then of r, and with it the slopes of z and n; from those of n of all units that of r. The two places of
 * the state hold the gradients of the gates: step n reads place n mod 2. */
#include "gru_state_recurrence_grad_f32.h"
#include "math_f32.h"
#include "recurrence_f32.h"

enum { UPDATE, RESET, HIDDEN };

typedef struct {
    const gru_state_recurrence_grad_f32_args_t *p;
    uint32_t step, row, b;
} step_t;

/* The gradients of z and n, from what arrives at h. */
static inline void slopes_of_step(const step_t *s, uint32_t unit, float *place, float dh) {
    const gru_state_recurrence_grad_f32_args_t *p = s->p;
    const uint32_t wide = s->b * p->hidden, at = wide + unit;
    if (p->dy) dh += p->dy[s->row * p->dy_t + at];
    const float *gates = p->gates + s->row * p->gates_t + 4 * wide + unit, z = gates[0], n = gates[2 * p->hidden];
    const float dn = dh * (1.0f - z) * __builtin_fmaf(-n, n, 1.0f);
    const float dz = dh * (p->before[s->row * p->before_t + at] - n) * (z * (1.0f - z));
    float *dx = p->dx + s->row * p->dx_t + 3 * wide + unit;
    dx[0] = place[0] = dz;
    dx[2 * p->hidden] = place[2 * p->hidden] = dn;
    p->dh[at] = dh * z;
}

/* The gradient of r, from that of r h. */
static inline void reset_of_step(const step_t *s, uint32_t unit, float *place, float of_reset) {
    const gru_state_recurrence_grad_f32_args_t *p = s->p;
    const uint32_t wide = s->b * p->hidden, at = wide + unit;
    const float r = p->gates[s->row * p->gates_t + 4 * wide + p->hidden + unit];
    const float dr = of_reset * p->before[s->row * p->before_t + at] * (r * (1.0f - r));
    p->dx[s->row * p->dx_t + 3 * wide + p->hidden + unit] = place[p->hidden] = dr;
    p->dh[at] = __builtin_fmaf(of_reset, r, p->dh[at]);
}

/* The products of the gradients of a gate with R for so many units from u on: of the step behind, of n of this step. */
static inline void products_of_step(const step_t *s, uint32_t g, uint32_t u, uint32_t units, float *sums) {
    const gru_state_recurrence_grad_f32_args_t *p = s->p;
    const uint32_t gate = p->first_gate + g, place = (s->step + (gate == HIDDEN)) & 1;
    const float *with = p->state + place * p->state_p + (3 * s->b + gate) * p->hidden;
    if (s->step || gate == HIDDEN) unit_products(sums, units, with, p->r + g * p->r_k + u, 1, p->r_h, p->hidden);
}

/* What one gate of R adds for a unit; g and u count from the first of the tile. The sum of the first waits for that of the
 * second where dX's will be. */
static inline void gate_of_step(const step_t *s, uint32_t g, uint32_t u, float sum) {
    const gru_state_recurrence_grad_f32_args_t *p = s->p;
    const uint32_t gate = p->first_gate + g, unit = p->first_unit + u, at = s->b * p->hidden + unit;
    float *wide = p->state + s->b * 3 * p->hidden, *next = wide + (1 - (s->step & 1)) * p->state_p + unit;
    float *waiting = p->dx + s->row * p->dx_t + 3 * s->b * p->hidden + unit;
    if (s->step == 0) wide[gate * p->hidden + unit] = 0.0f;
    if (gate == UPDATE) *waiting = sum;
    if (gate == RESET) slopes_of_step(s, unit, next, s->step ? *waiting + sum + p->dh[at] : state_or_zero(p->dlast, at));
    if (gate == HIDDEN) reset_of_step(s, unit, next, sum);
}

STEPS_BY_GATE_F32(gru_state_recurrence_grad_f32)
