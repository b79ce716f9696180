/* Steps of a GRU: z, r = sigmoid(x + R h + b), n = tanh(x + r (R h + b)) or, with the gate on the state, tanh(x + R (r h)),
 * h' = n + z (h - n). Step n reads place n mod 2 of the state; the third has R h + b or r h of the hidden gate. */
#include "gru_recurrence_f32.h"
#include "math_f32.h"
#include "recurrence_f32.h"

typedef struct {
    const gru_recurrence_f32_args_t *p;
    uint32_t step, row, b;
} step_t;

static inline const float *state_of(const step_t *s) {
    const gru_recurrence_f32_args_t *p = s->p;
    if (s->step) return p->state + (s->step & 1) * p->state_w + s->b * p->hidden;
    return p->h ? p->h + s->b * p->hidden : 0;
}

/* The reset gate of a unit, where it is on the state: all units have it before the hidden gate of any. */
static inline void reset_of_step(const step_t *s, uint32_t u) {
    const gru_recurrence_f32_args_t *p = s->p;
    const float *h = state_of(s);
    float sum = 0.0f;
    if (h) gate_products(&sum, 1, h, 0, p->r + p->r_g + u * p->hidden, 0, 1, p->hidden);
    const float r = sigmoidf_f32(p->x[s->row * p->x_t + s->b * p->x_b + p->x_g + u] + sum);
    if (p->gates) p->gates[s->row * p->gates_t + s->b * p->gates_b + p->gates_s + u] = r;
    p->state[2 * p->state_w + s->b * p->hidden + u] = r * (h ? h[u] : 0.0f);
}

static inline void unit_of_step(const step_t *s, uint32_t u) {
    const gru_recurrence_f32_args_t *p = s->p;
    const uint32_t unit = p->first_unit + u, at = s->b * p->hidden + unit, third = 2 * p->state_w;
    const float *state = state_of(s), *x = p->x + s->row * p->x_t + s->b * p->x_b + u, h = state ? state[unit] : 0.0f;
    const float *weights = p->r + u * p->hidden;
    float sums[3] = {0.0f, 0.0f, 0.0f}, r = 0.0f, gated = p->state[third + at], n;
    if (state && p->after) gate_products(sums, 3, state, 0, weights, p->r_g, 1, p->hidden);
    if (state && !p->after) gate_products(sums, 1, state, 0, weights, 0, 1, p->hidden);
    if (p->bias)
        for (uint32_t g = 0; g < 3; g++) sums[g] += p->bias[g * p->bias_g + u];
    if (p->after) {
        r = sigmoidf_f32(x[p->x_g] + sums[1]);
        gated = sums[2];
        n = tanhf_f32(__builtin_fmaf(r, gated, x[2 * p->x_g]));
    } else {
        gate_products(sums + 2, 1, p->state + third + s->b * p->hidden, 0, weights + 2 * p->r_g, 0, 1, p->hidden);
        n = tanhf_f32(x[2 * p->x_g] + sums[2]);
    }
    const float z = sigmoidf_f32(x[0] + sums[0]), y = __builtin_fmaf(z, h - n, n);
    if (p->gates) {
        float *gates = p->gates + s->row * p->gates_t + s->b * p->gates_b + u;
        gates[0] = z;
        if (p->after) gates[p->gates_s] = r;
        gates[2 * p->gates_s] = n;
        gates[3 * p->gates_s] = gated;
    }
    if (p->before) p->before[s->row * p->before_t + s->b * p->before_b + u] = h;
    if (p->y) p->y[s->row * p->y_t + s->b * p->y_b + u] = y;
    if (p->last && s->step + 1 == p->steps) p->last[at] = y;
    if (s->step == 0) p->state[at] = h;
    if (p->after) p->state[third + at] = gated;
    p->state[(1 - (s->step & 1)) * p->state_w + at] = y;
}

void gru_recurrence_f32(const void *args) {
    const gru_recurrence_f32_args_t *p = args;
    const share_t share = step_share(p->time == 1 && !p->after ? 0 : p->time, p->batch, p->unit);
    for (uint32_t t = 0; t < p->time; t++) {
        step_t s = {p, p->start + t, step_row(t, p->time, p->mirrored), 0};
        for (uint32_t i = share.begin; i < share.end; i++) {
            const uint32_t u = i % p->unit;
            s.b = i / p->unit;
            if (u == 0 && !p->after)
                for (uint32_t k = 0; k < p->unit; k++) reset_of_step(&s, k);
            unit_of_step(&s, u);
        }
    }
}
