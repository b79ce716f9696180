/* Lines of a Gemm's outputs: rows of Y, or columns, where A and B change roles. */
#ifndef GEMM_LINES_H
#define GEMM_LINES_H

#include "gemm_line.h"

/* Of each batch so many lines from number `from` on, of `count` outputs each; cores are dealt pieces of four outputs. The last
 * core, which has the fewest blocks of a matrix, is the first to get one. */
static __attribute__((noinline)) void deal(const MATRICES *p, uint32_t down, uint32_t from, uint32_t lines,
                                           uint32_t count) {
    const steps_t step = {4 * (down ? p->b_k : p->a_k), 4 * (down ? p->a_k : p->b_k), 4 * (down ? p->a_m : p->b_n)};
    const uint32_t y_n = down ? p->y_m : 1, c_n = down ? p->c_m : p->c_n, gate_n = down ? p->gate_m : 1;
    const uint32_t y_next = down ? 1 : p->y_m, c_next = down ? p->c_n : p->c_m, gate_next = down ? 1 : p->gate_m;
    const uint32_t next = down ? p->b_n : p->a_m, cores = hal_core_count(), whole = (count + 3) & ~3u;
    const uint32_t goes_on = !p->first && p->single, adds = !p->first && !p->single, finished = has_epilogue(p);
    uint32_t n = 4 * (cores - 1 - hal_core_id()), line = 0, batch = 0;
    for (;; n += 4 * cores) {
        for (; n >= whole; n -= whole)
            if (++line == lines) {
                line = 0;
                if (++batch == p->batch) return;
            }
        const uint32_t width = hal_min(count - n, 4), number = from + line;
        const float *a = p->a + batch * p->a_b, *b = p->b + batch * p->b_b;
        const float *v = (down ? b : a) + number * next, *w = at(down ? a : b, n * step.w_n);
        float *y0 = p->y + batch * p->y_b + number * y_next + n * y_n, s[4] = {0};
        float *y1 = width > 1 ? y0 + y_n : y0, *y2 = width > 2 ? y1 + y_n : y1, *y3 = width > 3 ? y2 + y_n : y2;
        if (goes_on) s[0] = *y0, s[1] = *y1, s[2] = *y2, s[3] = *y3;
        if (SEVERAL_BLOCKS) {
            float sums[4] = {LITERAL_F32(-0.0f)}; /* plus the first block: that itself */
            sums[1] = sums[2] = sums[3] = sums[0];
            if (adds) sums[0] = *y0, sums[1] = *y1, sums[2] = *y2, sums[3] = *y3;
            for (uint32_t left = p->k;;) {
                const uint32_t k = hal_min(left, PRODUCTS_BLOCK);
                add_4(&step, k, v, w, s, width);
                s[0] += sums[0], s[1] += sums[1], s[2] += sums[2], s[3] += sums[3];
                left -= k;
                if (left == 0) break;
                v = at(v, PRODUCTS_BLOCK * step.v_k), w = at(w, PRODUCTS_BLOCK * step.w_k);
                sums[0] = s[0], sums[1] = s[1], sums[2] = s[2], sums[3] = s[3];
                s[0] = s[1] = s[2] = s[3] = 0.0f;
            }
        } else {
            add_4(&step, p->k, v, w, s, width);
            if (adds) s[0] += *y0, s[1] += *y1, s[2] += *y2, s[3] += *y3;
        }
        if (finished)
            epilogue(p, s, width, p->c + batch * p->c_b + number * c_next + n * c_n, c_n,
                   p->gate + batch * p->gate_b + number * gate_next + n * gate_n, gate_n);
        *y0 = s[0], *y1 = s[1], *y2 = s[2], *y3 = s[3];
    }
}

/* All of a Gemm, along its longer side. */
static inline void lines(const MATRICES *p) {
    const uint32_t down = p->m > p->n;
    deal(p, down, 0, down ? p->n : p->m, down ? p->m : p->n);
}

/* What is left of rows, and of columns beside other rows, when there are blocks of four. */
static inline void rest(const MATRICES *p) {
    const uint32_t row = p->m & ~3u, column = p->n & ~3u;
    if (row < p->m) deal(p, 0, row, p->m - row, p->n);
    if (column < p->n) deal(p, 1, column, p->n - column, row);
}

#endif
