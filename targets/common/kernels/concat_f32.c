/* Rows of Y: what the tile has of A's row, then what it has of B's. */
#include "concat_f32.h"
#include "hal.h"
#include "share_f32.h"
#include "words.h"

void concat_f32(const void *args) {
    const concat_f32_args_t *p = args;
    const share_t share = share_of(p->r * p->n);
    const uint32_t a_n = p->a_n;
    for (uint32_t i = share.begin, run; i < share.end; i += run) {
        const uint32_t row = i / p->n, first = i - row * p->n;
        const float *a = p->a + row * p->a_r, *b = p->b + row * p->b_r;
        float *y = p->y + row * p->y_r;
        const uint32_t last = share.end - row * p->n < p->n ? share.end - row * p->n : p->n;
        for (uint32_t k = first; k < last; k++) set_word(&y[k], k < a_n ? word_at(&a[k]) : word_at(&b[k - a_n]));
        run = last - first;
    }
}
