/* Y = product of X over the loops r0..r2, in that order, for each index of k0..k2. Between tiles the product so far waits
 * in Y. */
#include "hal.h"
#include "reduce_prod_f32.h"
#include "share_f32.h"

void reduce_prod_f32(const void *args) {
    const reduce_prod_f32_args_t *p = args;
    const share_t share = share_of(p->k0 * p->k1 * p->k2);
    for (uint32_t i = share.begin; i < share.end; i++) {
        const uint32_t k2 = i % p->k2, k01 = i / p->k2, k1 = k01 % p->k1, k0 = k01 / p->k1;
        const float *x = p->x + k0 * p->x_k0 + k1 * p->x_k1 + k2 * p->x_k2;
        float *y = p->y + k0 * p->y_k0 + k1 * p->y_k1 + k2;
        float product = p->first ? 1.0f : *y;
        for (uint32_t r0 = 0; r0 < p->r0; r0++)
            for (uint32_t r1 = 0; r1 < p->r1; r1++) {
                const float *run = x + r0 * p->x_r0 + r1 * p->x_r1;
                for (uint32_t r2 = 0; r2 < p->r2; r2++) product *= run[r2 * p->x_r2];
            }
        *y = product;
    }
}
