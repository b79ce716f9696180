/* What kernels of recurrences share: products of a state with the weights, and who computes which unit.
 *
 * A step waits for all units of the step before. Where a call has one step, cores share its units: the state is read in
 * one place and written in the other. Where it has several, it has all units, and a core keeps to sequences of its own. */
#ifndef RECURRENCE_F32_H
#define RECURRENCE_F32_H

#include "hal.h"
#include "products_f32.h"
#include "share_f32.h"

/* sums[g] = sum over k of state[g * pitch + k] * r[g * r_gate + k * r_next], for each gate, in blocks. The gates are a
 * constant, at most 4, so that their sums are in registers. */
static inline __attribute__((always_inline)) void gate_products(float *sums, const uint32_t gates, const float *state,
                                                                uint32_t pitch, const float *r, uint32_t r_gate,
                                                                uint32_t r_next, uint32_t size) {
    for (uint32_t k = 0; k < size;) {
        const uint32_t first = k == 0;
        float block[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        for (const uint32_t end = hal_min(k + PRODUCTS_BLOCK, size); k < end; k++, state++, r += r_next)
#pragma GCC unroll 4
            for (uint32_t g = 0; g < gates; g++)
                block[g] = __builtin_fmaf(state[g * pitch], r[g * r_gate], block[g]);
#pragma GCC unroll 4
        for (uint32_t g = 0; g < gates; g++) sums[g] = products_add(sums[g], block[g], first);
    }
}

/* The same of one gate, for 4 units or for one: sums[u] = sum over k of state[k] * r[u * r_unit + k * r_next]. */
static inline void unit_products(float *sums, uint32_t units, const float *state, const float *r, uint32_t r_unit,
                                 uint32_t r_next, uint32_t size) {
    if (units == 4)
        gate_products(sums, 4, state, 0, r, r_unit, r_next, size);
    else
        gate_products(sums, 1, state, 0, r, 0, r_next, size);
}

/* How many units one call of `unit_products` takes, of so many that are left. */
static inline uint32_t units_at_once(uint32_t left) {
    return left < 4 ? 1 : 4;
}

/* A core's share of the outputs of each step: units of the tile, those of a sequence after those of the one before. The
 * call has so many steps, or gates of steps, that wait for each other. */
static inline share_t step_share(uint32_t steps, uint32_t batch, uint32_t units) {
    if (steps == 1) return share_of(batch * units);
    const share_t sequences = share_of(batch);
    return (share_t){sequences.begin * units, sequences.end * units};
}

/* The row of a tile in which a step lies. */
static inline uint32_t step_row(uint32_t step, uint32_t time, uint32_t mirrored) {
    return mirrored ? time - 1 - step : step;
}

/* A number of a state that may be absent. */
static inline float state_or_zero(const float *state, uint32_t at) {
    return state ? state[at] : 0.0f;
}

/* Defines the kernel `symbol`, whose file has before it unit_of_step(p, step, row, b, u): unit u of the tile in sequence b,
 * for the step of that number in the layer, which lies in that row of the tile. */
#define STEPS_F32(symbol)                                                                                             \
    void symbol(const void *args) {                                                                                   \
        const symbol##_args_t *p = args;                                                                              \
        const share_t share = step_share(p->time, p->batch, p->unit);                                                 \
        for (uint32_t t = 0; t < p->time; t++) {                                                                      \
            const uint32_t row = step_row(t, p->time, p->mirrored);                                                   \
            for (uint32_t i = share.begin; i < share.end; i++)                                                        \
                unit_of_step(p, p->start + t, row, i / p->unit, i % p->unit);                                         \
        }                                                                                                             \
    }

/* The same where gates of a step wait for each other: the file has before it step_t (arguments, step, row, b), and for gate
 * g of the tile products_of_step(&s, g, u, units, sums), of so many units from u on, and gate_of_step(&s, g, u, sum). */
#define STEPS_BY_GATE_F32(symbol)                                                                                     \
    void symbol(const void *args) {                                                                                   \
        const symbol##_args_t *p = args;                                                                              \
        const share_t share = step_share(p->time * p->gate, p->batch, p->unit);                                       \
        for (uint32_t t = 0; t < p->time; t++) {                                                                      \
            step_t s = {p, p->start + t, step_row(t, p->time, p->mirrored), 0};                                       \
            for (uint32_t g = 0; g < p->gate; g++)                                                                    \
                for (uint32_t i = share.begin, units; i < share.end; i += units) {                                    \
                    const uint32_t u = i % p->unit;                                                                   \
                    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};                                                         \
                    s.b = i / p->unit;                                                                                \
                    units = units_at_once(hal_min(p->unit - u, share.end - i));                                       \
                    products_of_step(&s, g, u, units, sums);                                                          \
                    for (uint32_t k = 0; k < units; k++) gate_of_step(&s, g, u + k, sums[k]);                         \
                }                                                                                                     \
        }                                                                                                             \
    }

#endif
