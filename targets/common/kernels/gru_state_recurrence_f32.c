/* Steps of a GRU whose reset gate is on the state: z, r = sigmoid(x + R h), n = tanh(x + R (r h)), h' = n + z (h - n), gate
 * by gate. Step n reads place n mod 2 of the state; the third has r h, the fourth z. */
#include "gru_state_recurrence_f32.h"
#include "math_f32.h"
#include "recurrence_f32.h"

enum { UPDATE, RESET, HIDDEN };

typedef struct {
    const gru_state_recurrence_f32_args_t *p;
    uint32_t step, row, b;
} step_t;

static inline void end_of_step(const step_t *s, uint32_t unit, float h, float n) {
    const gru_state_recurrence_f32_args_t *p = s->p;
    const uint32_t at = s->b * p->hidden + unit;
    const float y = __builtin_fmaf(p->state[3 * p->state_q + at], h - n, n);
    if (p->before) p->before[s->row * p->before_t + at] = h;
    if (p->y) p->y[s->row * p->y_t + at] = y;
    if (p->last && s->step + 1 == p->steps) p->last[at] = y;
    if (s->step == 0) p->state[at] = h;
    p->state[(1 - (s->step & 1)) * p->state_q + at] = y;
}

static inline const float *state_of(const step_t *s) {
    const gru_state_recurrence_f32_args_t *p = s->p;
    if (s->step) return p->state + (s->step & 1) * p->state_q + s->b * p->hidden;
    return p->h ? p->h + s->b * p->hidden : 0;
}

/* The products of a gate with R for so many units from u on. */
static inline void products_of_step(const step_t *s, uint32_t g, uint32_t u, uint32_t units, float *sums) {
    const gru_state_recurrence_f32_args_t *p = s->p;
    const float *gated = p->state + 2 * p->state_q + s->b * p->hidden;
    const float *with = p->first_gate + g == HIDDEN ? gated : state_of(s);
    if (with) unit_products(sums, units, with, p->r + g * p->r_k + u * p->hidden, p->hidden, 1, p->hidden);
}

/* A gate of a unit, from its product; g and u count from the first of the tile. */
static inline void gate_of_step(const step_t *s, uint32_t g, uint32_t u, float product) {
    const gru_state_recurrence_f32_args_t *p = s->p;
    const uint32_t gate = p->first_gate + g, unit = p->first_unit + u, wide = s->b * p->hidden;
    const float *state = state_of(s), h = state ? state[unit] : 0.0f;
    const float sum = product + p->x[s->row * p->x_t + s->b * p->x_b + g * p->x_k + u];
    const float value = gate == HIDDEN ? tanhf_f32(sum) : sigmoidf_f32(sum);
    float *gates = p->gates ? p->gates + s->row * p->gates_t + 4 * wide + unit : 0;
    if (gates) gates[gate * p->hidden] = value;
    if (gates && gate == RESET) gates[3 * p->hidden] = value * h;
    if (gate == UPDATE) p->state[3 * p->state_q + wide + unit] = value;
    if (gate == RESET) p->state[2 * p->state_q + wide + unit] = value * h;
    if (gate == HIDDEN) end_of_step(s, unit, h, value);
}

STEPS_BY_GATE_F32(gru_state_recurrence_f32)
