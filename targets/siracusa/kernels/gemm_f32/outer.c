/* Outer products. */
#include "gemm_f32.h"
#include "hal.h"
#include "outer_rows.h"
#include "pulp.h"

/* Strips of eight columns and what is left of them: every core takes some rows of each, or, where they can be dealt out
 * evenly or there are too few rows, whole strips. */
static inline void outer(const gemm_f32_args_t *p, const float *a, const float *b, float *y) {
    const uint32_t cores = hal_core_count(), id = hal_core_id(), strips = p->n >> 3, b_n = 4 * p->b_n, m = p->m;
    uint32_t a_m = 4 * p->a_m, y_m = 4 * p->y_m, n = p->n, i = 0, next = 8, rows = m;
    uint32_t whole = strips >= cores && ((strips & (cores - 1)) == 0 || m < cores);
    if (whole) i = 8 * id, next = 8 * cores;
    for (;; whole = 0, i = 8 * strips) {
        if (!whole) {
            if (id >= m) return;
            rows = rounds_of(m - id, cores);
            a = at(a, id * a_m), y += id * p->y_m;
            a_m *= cores, y_m *= cores;
        }
        for (; i + 8 <= n; i += next) outer_8(a, a_m, at(b, i * b_n), b_n, y + i, y_m, rows);
        if ((n & 7) == 0) return;
        if (!whole) break;
    }
    for (i = 8 * strips; i < n; i++) outer_1(a, a_m, at(b, i * b_n), y + i, y_m, rows);
}

void gemm_f32_outer(const void *args) {
    const gemm_f32_args_t *p = args;
    const float *a = p->a, *b = p->b;
    float *y = p->y;
    for (uint32_t i = 0; i < p->batch; i++, a += p->a_b, b += p->b_b, y += p->y_b) outer(p, a, b, y);
}
