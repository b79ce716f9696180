/* The k largest elements of each line, or the smallest, in order: an element goes before those in the list that it beats,
 * so of equal ones the first stays first. NaN beats none. */
#include "hal.h"
#include "share_f32.h"
#include "top_k_f32.h"

static inline uint32_t beats(float x, float y, uint32_t largest) {
    return (largest ? x > y : x < y) || (y != y && x == x);
}

void top_k_f32(const void *args) {
    const top_k_f32_args_t *p = args;
    const share_t share = share_of(p->o * p->i);
    for (uint32_t at = share.begin; at < share.end; at++) {
        const uint32_t o = at / p->i, i = at - o * p->i;
        const float *x = p->x + o * p->x_o + i;
        float *y = p->y + o * p->y_o + i;
        int32_t *ids = p->ids ? p->ids + o * p->ids_o + i : 0;
        for (uint32_t n = 0; n < p->n; n++) {
            const float value = x[n * p->x_n];
            uint32_t k = n < p->k ? n : p->k;
            if (k == p->k && !beats(value, y[(k - 1) * p->y_n], p->largest)) continue;
            if (k == p->k) k--;
            for (; k > 0 && beats(value, y[(k - 1) * p->y_n], p->largest); k--) {
                y[k * p->y_n] = y[(k - 1) * p->y_n];
                if (ids) ids[k * p->ids_n] = ids[(k - 1) * p->ids_n];
            }
            y[k * p->y_n] = value;
            if (ids) ids[k * p->ids_n] = (int32_t)n;
        }
    }
}
