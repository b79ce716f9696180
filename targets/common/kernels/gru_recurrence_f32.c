/* Steps of a GRU: z, r = sigmoid(x + R h + b), n = tanh(x + r (R h + b)), h' = n + z (h - n). Step n reads place n mod 2
 * of the state. */
#include "gru_recurrence_f32.h"
#include "math_f32.h"
#include "recurrence_f32.h"

typedef struct {
    const gru_recurrence_f32_args_t *p;
    uint32_t step, row, b;
} step_t;

static inline void unit_of_step(const step_t *s, uint32_t u) {
    const gru_recurrence_f32_args_t *p = s->p;
    const uint32_t unit = p->first_unit + u, at = s->b * p->hidden + unit, now = (s->step & 1) * p->state_p;
    const float *state = s->step ? p->state + now + s->b * p->hidden : p->h ? p->h + s->b * p->hidden : 0;
    const float *x = p->x + s->row * p->x_t + s->b * p->x_b + u, h = state ? state[unit] : 0.0f;
    float sums[3] = {0.0f, 0.0f, 0.0f};
    if (state) gate_products(sums, 3, state, 0, p->r + u * p->hidden, p->r_g, 1, p->hidden);
    if (p->bias)
        for (uint32_t g = 0; g < 3; g++) sums[g] += p->bias[g * p->bias_g + u];
    const float r = sigmoidf_f32(x[p->x_g] + sums[1]), n = tanhf_f32(__builtin_fmaf(r, sums[2], x[2 * p->x_g]));
    const float z = sigmoidf_f32(x[0] + sums[0]), y = __builtin_fmaf(z, h - n, n);
    if (p->gates) {
        const float of_gates[4] = {z, r, n, sums[2]};
        float *gates = p->gates + s->row * p->gates_t + s->b * p->gates_b + u;
        for (uint32_t g = 0; g < 4; g++) gates[g * p->gates_s] = of_gates[g];
    }
    if (p->before) p->before[s->row * p->before_t + s->b * p->before_b + u] = h;
    if (p->y) p->y[s->row * p->y_t + s->b * p->y_b + u] = y;
    if (p->last && s->step + 1 == p->steps) p->last[at] = y;
    if (s->step == 0) p->state[at] = h;
    p->state[p->state_p - now + at] = y;
}

void gru_recurrence_f32(const void *args) {
    const gru_recurrence_f32_args_t *p = args;
    const share_t share = step_share(p->time, p->batch, p->unit);
    for (uint32_t t = 0; t < p->time; t++) {
        step_t s = {p, p->start + t, step_row(t, p->time, p->mirrored), 0};
        for (uint32_t i = share.begin; i < share.end; i++) {
            s.b = i / p->unit;
            unit_of_step(&s, i % p->unit);
        }
    }
}
