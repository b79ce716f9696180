/* Outer products, added to C. */
#include "gemm_f32.h"
#include "hal.h"
#include "outer_rows.h"
#include "pulp.h"

/* Strips of four columns, shared as outer.c does. */
static inline void added(const gemm_f32_args_t *p, const float *a, const float *b, const float *c,
                         float *y) {
    const uint32_t cores = hal_core_count(), id = hal_core_id(), strips = p->n >> 2, b_n = 4 * p->b_n, m = p->m;
    const uint32_t own = id < m ? rounds_of(m - id, cores) : 0;
    const float beta = p->beta;
    uint32_t i = 0, next = 4, row = id, step = cores, rows = own;
    if (strips >= cores && ((strips & (cores - 1)) == 0 || m < cores)) i = 4 * id, next = 4 * cores, row = 0, step = 1, rows = m;
    for (; i < 4 * strips && rows > 0; i += next)
        added_4(at(a, 4 * row * p->a_m), 4 * step * p->a_m, at(b, i * b_n), b_n, c + row * p->c_m + i, 4 * step * p->c_m,
                y + row * p->y_m + i, 4 * step * p->y_m, rows, beta);
    for (i = 4 * strips; i < p->n && own > 0; i++)
        added_1(at(a, 4 * id * p->a_m), 4 * cores * p->a_m, at(b, i * b_n), c + id * p->c_m + i, 4 * cores * p->c_m,
                y + id * p->y_m + i, 4 * cores * p->y_m, own, beta);
}

void gemm_f32_added(const void *args) {
    const gemm_f32_args_t *p = args;
    const float *a = p->a, *b = p->b, *c = p->c;
    float *y = p->y;
    for (uint32_t i = 0; i < p->batch; i++, a += p->a_b, b += p->b_b, c += p->c_b, y += p->y_b) added(p, a, b, c, y);
}
