/* Y = alpha * A B + beta * C on strided operands. Each output sums k in blocks, as products_f32.h says, so the bits do
 * not depend on tiles, cores or strides; the raw total waits in Y between tiles. Relu and its gradient come last. Four
 * columns at a time share what is read of A. */
#include "gemm_f32.h"
#include "activation_f32.h"
#include "hal.h"
#include "product_columns_f32.h"
#include "share_f32.h"

/* What comes behind the last product, on `width` totals of a row from column n on. */
static void epilogue_columns(const gemm_f32_args_t *p, float *y, uint32_t batch, uint32_t m, uint32_t n, uint32_t width) {
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
    const uint32_t b_n = p->b_n, has_epilogue = p->last && (p->alpha != 1.0f || p->c || p->relu || p->gate);
    const columns_t columns = {p->k, p->a_k, p->b_k, b_n, p->first, p->single};
    const share_t share = share_of(p->batch * p->m * p->n);
    uint32_t n = share.begin % p->n, m = share.begin / p->n % p->m, batch = share.begin / p->n / p->m;
    for (uint32_t left = share.end - share.begin; left > 0;) {
        const uint32_t width = hal_min(left, p->n - n);
        const float *a = p->a + batch * p->a_b + m * p->a_m, *b = p->b + batch * p->b_b + n * b_n;
        float *y = p->y + batch * p->y_b + m * p->y_m + n;
        uint32_t j = 0;
        for (; j + FOUR <= width; j += FOUR) column_sums(&columns, a, b + j * b_n, y + j);
        for (; j < width; j++) column_sum(&columns, a, b + j * b_n, y + j);
        if (has_epilogue) epilogue_columns(p, y, batch, m, n, width);
        left -= width;
        n = 0;
        if (++m == p->m) m = 0, batch++;
    }
}
