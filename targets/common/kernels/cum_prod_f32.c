/* Y = the product of all elements of X so far along each line, from either end, with the element itself or without. */
#include "cum_prod_f32.h"
#include "hal.h"
#include "share_f32.h"

void cum_prod_f32(const void *args) {
    const cum_prod_f32_args_t *p = args;
    const share_t share = share_of(p->o * p->i);
    for (uint32_t at = share.begin; at < share.end; at++) {
        const uint32_t o = at / p->i, i = at - o * p->i;
        const float *x = p->x + o * p->x_o + i;
        float *y = p->y + o * p->y_o + i, product = 1.0f;
        for (uint32_t k = 0; k < p->n; k++) {
            const uint32_t n = p->reverse ? p->n - 1 - k : k;
            const float value = x[n * p->x_n];
            if (p->exclusive) y[n * p->y_n] = product;
            product *= value;
            if (!p->exclusive) y[n * p->y_n] = product;
        }
    }
}
