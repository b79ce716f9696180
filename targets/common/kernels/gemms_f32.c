/* Products of matrices one after the other, each as gemm_f32 has it: joint_products_f32.h. */
#include "gemms_f32.h"
#include "hal.h"
#include "joint_products_f32.h"
#include "product_columns_f32.h"
#include "share_f32.h"

/* Complete sums are added to C, which may lie where they go to. */
static void product(const joint_product_t *p) {
    const columns_t columns = {p->k, p->a_k, p->b_k, p->b_n, p->first, p->single};
    const uint32_t adds = p->last && p->c;
    const share_t share = share_of(p->m * p->n);
    uint32_t n = share.begin % p->n, m = share.begin / p->n;
    for (uint32_t left = share.end - share.begin; left > 0;) {
        const uint32_t width = hal_min(left, p->n - n);
        const float *a = p->a + m * p->a_m, *b = p->b + n * p->b_n, *c = p->c + m * p->c_m + n * p->c_n;
        float *y = p->y + m * p->y_m + n;
        for (uint32_t j = 0, count; j < width; j += count) {
            float sums[FOUR];
            count = width - j < FOUR ? 1 : FOUR;
            if (!p->first)
                for (uint32_t i = 0; i < count; i++) sums[i] = y[j + i];
            if (count == 1) column_sum(&columns, a, b + j * p->b_n, sums);
            else column_sums(&columns, a, b + j * p->b_n, sums);
            for (uint32_t i = 0; i < count; i++) y[j + i] = adds ? sums[i] + c[(j + i) * p->c_n] : sums[i];
        }
        left -= width;
        n = 0;
        m++;
    }
}

void gemms_f32(const void *args) { joint_products(args, 1.0f, product); }
