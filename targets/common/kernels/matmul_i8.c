/* Y = round(ratio * (A - a_zero) (B - b_zero)), of matrices by rows. A sum is exact, so no order of its terms touches the bits. */
#include "matmul_i8.h"
#include "hal.h"
#include "requantize_i8.h"
#include "share_f32.h"

/* Four columns at a time share what is read of A. */
#define COLUMNS 4

/* Adds the products of a row of A with up to four columns of B. */
static inline void products(const matmul_i8_args_t *p, const int8_t *a, const int8_t *b, uint32_t columns, int32_t *sums) {
    const int32_t a_zero = p->a_zero, b_zero = p->b_zero;
    if (columns == COLUMNS) {
        int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
        for (uint32_t k = 0; k < p->k; k++, b += p->b_k) {
            const int32_t value = a[k] - a_zero;
            s0 += value * (b[0] - b_zero);
            s1 += value * (b[1] - b_zero);
            s2 += value * (b[2] - b_zero);
            s3 += value * (b[3] - b_zero);
        }
        sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
        return;
    }
    for (uint32_t j = 0; j < columns; j++) {
        sums[j] = 0;
        for (uint32_t k = 0; k < p->k; k++) sums[j] += (a[k] - a_zero) * (b[k * p->b_k + j] - b_zero);
    }
}

void matmul_i8(const void *args) {
    const matmul_i8_args_t *p = args;
    const share_t share = share_of(p->batch * p->m);
    const range_i8_t range = range_i8(p->low, p->high, p->zero);
    for (uint32_t i = share.begin; i < share.end; i++) {
        const uint32_t batch = i / p->m, m = i - batch * p->m;
        const int8_t *a = p->a + batch * p->a_batch + m * p->a_m, *b = p->b + batch * p->b_batch;
        int8_t *y = p->y + batch * p->y_batch + m * p->y_m;
        for (uint32_t n = 0, columns; n < p->n; n += columns) {
            int32_t sums[COLUMNS];
            columns = hal_min(COLUMNS, p->n - n);
            products(p, a, b + n, columns, sums);
            for (uint32_t j = 0; j < columns; j++)
                y[n + j] = requantized_i8(sums[j], p->ratio[(n + j) * p->ratio_n], range);
        }
    }
}
