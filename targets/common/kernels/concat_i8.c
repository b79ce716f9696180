/* Rows of Y: what the tile has of A's row, then what it has of B's. */
#include "concat_i8.h"
#include "hal.h"
#include "share_f32.h"

void concat_i8(const void *args) {
    const concat_i8_args_t *p = args;
    const share_t share = share_of(p->r * p->n);
    const uint32_t a_n = p->a_n;
    for (uint32_t i = share.begin, run; i < share.end; i += run) {
        const uint32_t row = i / p->n, first = i - row * p->n;
        const int8_t *a = p->a + row * p->a_r, *b = p->b + row * p->b_r;
        int8_t *y = p->y + row * p->y_r;
        const uint32_t last = share.end - row * p->n < p->n ? share.end - row * p->n : p->n;
        for (uint32_t k = first; k < last; k++) y[k] = k < a_n ? a[k] : b[k - a_n];
        run = last - first;
    }
}
