/* Y = alpha * A B + beta * C on strided operands. Each output sums k in blocks, as products_f32.h says, so the bits do
 * not depend on tiles, cores or strides; the raw total waits in Y between tiles. Relu and its gradient come last. */
#include "gemm_f32.h"
#include "activation_f32.h"
#include "hal.h"
#include "products_f32.h"

void gemm_f32(const void *args) {
    const gemm_f32_args_t *p = args;
    const uint32_t outputs = p->batch * p->m * p->n;
    for (uint32_t i = hal_core_id(); i < outputs; i += hal_core_count()) {
        const uint32_t n = i % p->n, row = i / p->n, m = row % p->m, b = row / p->m;
        const float *a_row = p->a + b * p->a_b + m * p->a_m;
        const float *b_col = p->b + b * p->b_b + n * p->b_n;
        float *y = p->y + b * p->y_b + m * p->y_m + n;
        float sum = p->first ? 0.0f : *y;
        for (uint32_t k = 0; k < p->k;) {
            const uint32_t end = hal_min(k + PRODUCTS_BLOCK, p->k), first = p->single || (p->first && k == 0);
            float block = p->single ? sum : 0.0f;
            for (; k < end; k++) block = __builtin_fmaf(a_row[k * p->a_k], b_col[k * p->b_k], block);
            sum = products_add(sum, block, first);
        }
        if (p->last && p->alpha != 1.0f) sum = p->alpha * sum;
        if (p->last && p->c) sum = __builtin_fmaf(p->beta, p->c[b * p->c_b + m * p->c_m + n * p->c_n], sum);
        if (p->last && p->relu) sum = relu_f32_of(sum);
        if (p->last && p->gate) sum = gated_f32(sum, p->gate[b * p->gate_b + m * p->gate_m + n]);
        *y = sum;
    }
}
