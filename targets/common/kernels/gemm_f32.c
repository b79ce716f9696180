/* Y = alpha * A B + beta * C on strided operands. Each output sums k in blocks, as products_f32.h says, so the bits do
 * not depend on tiles, cores or strides; the raw total waits in Y between tiles. Relu and its gradient come last. Four
 * columns at a time share what is read of A. */
#include "gemm_f32.h"
#include "activation_f32.h"
#include "hal.h"
#include "products_f32.h"
#include "share_f32.h"

#define COLUMNS 4u

/* The total of one column of a row. */
static void sum_one(const gemm_f32_args_t *p, const float *a, const float *b, float *y) {
    uint32_t first = p->first;
    float sum = first ? 0.0f : *y;
    for (uint32_t left = p->k; left > 0;) {
        uint32_t count = hal_min(left, PRODUCTS_BLOCK);
        float block = p->single ? sum : 0.0f;
        left -= count;
        for (; count > 0; count--, a += p->a_k, b += p->b_k) block = __builtin_fmaf(*a, *b, block);
        sum = products_add(sum, block, first | p->single);
        first = 0;
    }
    *y = sum;
}

/* The totals of COLUMNS columns of a row. */
static void sum_columns(const gemm_f32_args_t *p, const float *a, const float *b, float *y) {
    const uint32_t a_k = p->a_k, b_k = p->b_k;
    const float *b1 = b + p->b_n, *b2 = b1 + p->b_n, *b3 = b2 + p->b_n;
    uint32_t first = p->first;
    float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
    if (!first) s0 = y[0], s1 = y[1], s2 = y[2], s3 = y[3];
    for (uint32_t left = p->k; left > 0;) {
        uint32_t count = hal_min(left, PRODUCTS_BLOCK);
        float t0 = 0.0f, t1 = 0.0f, t2 = 0.0f, t3 = 0.0f;
        if (p->single) t0 = s0, t1 = s1, t2 = s2, t3 = s3;
        left -= count;
        for (; count > 0; count--, a += a_k, b += b_k, b1 += b_k, b2 += b_k, b3 += b_k) {
            const float x = *a;
            t0 = __builtin_fmaf(x, *b, t0);
            t1 = __builtin_fmaf(x, *b1, t1);
            t2 = __builtin_fmaf(x, *b2, t2);
            t3 = __builtin_fmaf(x, *b3, t3);
        }
        first |= p->single;
        s0 = products_add(s0, t0, first), s1 = products_add(s1, t1, first);
        s2 = products_add(s2, t2, first), s3 = products_add(s3, t3, first);
        first = 0;
    }
    y[0] = s0, y[1] = s1, y[2] = s2, y[3] = s3;
}

/* What comes behind the last product, on `width` totals of a row from column n on. */
static void finish(const gemm_f32_args_t *p, float *y, uint32_t batch, uint32_t m, uint32_t n, uint32_t width) {
    for (uint32_t j = 0; j < width; j++) {
        float sum = y[j];
        if (p->alpha != 1.0f) sum = p->alpha * sum;
        if (p->c) sum = __builtin_fmaf(p->beta, p->c[batch * p->c_b + m * p->c_m + (n + j) * p->c_n], sum);
        if (p->relu) sum = relu_f32_of(sum);
        if (p->gate) sum = gated_f32(sum, p->gate[batch * p->gate_b + m * p->gate_m + n + j]);
        y[j] = sum;
    }
}

void gemm_f32(const void *args) {
    const gemm_f32_args_t *p = args;
    const uint32_t b_n = p->b_n, finishes = p->last && (p->alpha != 1.0f || p->c || p->relu || p->gate);
    const share_t share = share_of(p->batch * p->m * p->n);
    uint32_t n = share.begin % p->n, m = share.begin / p->n % p->m, batch = share.begin / p->n / p->m;
    for (uint32_t left = share.end - share.begin; left > 0;) {
        const uint32_t width = hal_min(left, p->n - n);
        const float *a = p->a + batch * p->a_b + m * p->a_m, *b = p->b + batch * p->b_b + n * b_n;
        float *y = p->y + batch * p->y_b + m * p->y_m + n;
        uint32_t j = 0;
        for (; j + COLUMNS <= width; j += COLUMNS) sum_columns(p, a, b + j * b_n, y + j);
        for (; j < width; j++) sum_one(p, a, b + j * b_n, y + j);
        if (finishes) finish(p, y, batch, m, n, width);
        left -= width;
        n = 0;
        if (++m == p->m) m = 0, batch++;
    }
}
