/* What is less than four outputs wide of a Gemm: lines along the longer side. */
#ifndef GEMM_EDGES_H
#define GEMM_EDGES_H

#include "gemm_line.h"

static __attribute__((noinline)) void line(const gemm_f32_args_t *p, const float *v, const float *w, const float *c,
                                           const float *gate, float *y, uint32_t count, uint32_t down) {
    line_of(p, v, w, c, gate, y, count, down);
}

/* Of each batch, the rows from `row` on and, before them, the columns from `column` on. */
static __attribute__((noinline)) void edges(const gemm_f32_args_t *p, uint32_t row, uint32_t column) {
    const float *a = p->a, *b = p->b, *c = p->c, *gate = p->gate;
    float *y = p->y;
    for (uint32_t i = 0; i < p->batch; i++, a += p->a_b, b += p->b_b, c += p->c_b, gate += p->gate_b, y += p->y_b) {
        for (uint32_t m = row; m < p->m; m++)
            line(p, a + m * p->a_m, b, c + m * p->c_m, gate + m * p->gate_m, y + m * p->y_m, p->n, 0);
        for (uint32_t n = column; n < p->n && row > 0; n++)
            line(p, b + n * p->b_n, a, c + n * p->c_n, gate + n, y + n, row, 1);
    }
}

/* All of a Gemm, where rows or columns are less than four. */
static inline void narrow(const gemm_f32_args_t *p) {
    if (p->m > p->n)
        edges(p, p->m, 0);
    else
        edges(p, 0, p->n);
}

#endif
