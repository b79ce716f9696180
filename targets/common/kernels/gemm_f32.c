/* Y = alpha * A B + beta * C on strided operands. Each output sums k in blocks, as products_f32.h says, so the bits do
 * not depend on tiles, cores or strides; the raw total waits in Y between tiles. Relu and its gradient come last. Four
 * columns at a time share what is read of A. */
#include "gemm_f32.h"
#include "activation_f32.h"
#include "four_f32.h"
#include "hal.h"
#include "products_f32.h"
#include "share_f32.h"

/* The total of one column of a row. */
static void column_sum(const gemm_f32_args_t *p, const float *a, const float *b, float *y) {
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

/* The totals of four columns of a row. */
static void column_sums(const gemm_f32_args_t *p, const float *a, const float *b, float *y) {
    const uint32_t a_k = p->a_k, b_k = p->b_k, b_n = p->b_n;
    uint32_t first = p->first;
    four_t sums = first ? four_zero() : four_load(y, 1);
    for (uint32_t left = p->k; left > 0;) {
        uint32_t count = hal_min(left, PRODUCTS_BLOCK);
        four_t blocks = p->single ? sums : four_zero();
        left -= count;
        for (; count > 0; count--, a += a_k, b += b_k) blocks = four_fma(*a, b, b_n, blocks);
        sums = four_add(sums, blocks, first | p->single);
        first = 0;
    }
    four_store(y, 1, sums);
}

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
    const share_t share = share_of(p->batch * p->m * p->n);
    uint32_t n = share.begin % p->n, m = share.begin / p->n % p->m, batch = share.begin / p->n / p->m;
    for (uint32_t left = share.end - share.begin; left > 0;) {
        const uint32_t width = hal_min(left, p->n - n);
        const float *a = p->a + batch * p->a_b + m * p->a_m, *b = p->b + batch * p->b_b + n * b_n;
        float *y = p->y + batch * p->y_b + m * p->y_m + n;
        uint32_t j = 0;
        for (; j + FOUR <= width; j += FOUR) column_sums(p, a, b + j * b_n, y + j);
        for (; j < width; j++) column_sum(p, a, b + j * b_n, y + j);
        if (has_epilogue) epilogue_columns(p, y, batch, m, n, width);
        left -= width;
        n = 0;
        if (++m == p->m) m = 0, batch++;
    }
}
