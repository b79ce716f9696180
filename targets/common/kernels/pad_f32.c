/* Y = X, which lies `at` before Y's first element along each axis, and a constant where there is no X. */
#include "hal.h"
#include "pad_f32.h"
#include "share_f32.h"
#include "words.h"

void pad_f32(const void *args) {
    const pad_f32_args_t *p = args;
    const share_t share = share_of(p->n0 * p->n1 * p->n2 * p->n3);
    const word_t value = word_at(&p->value);
    for (uint32_t i = share.begin, run; i < share.end; i += run) {
        const uint32_t i3 = i % p->n3, i012 = i / p->n3, i2 = i012 % p->n2, i01 = i012 / p->n2;
        const uint32_t i1 = i01 % p->n1, i0 = i01 / p->n1;
        /* Indices in X's box; what lies before it wraps round and is beyond its end, too. */
        const uint32_t x0 = i0 + (uint32_t)p->at0, x1 = i1 + (uint32_t)p->at1, x2 = i2 + (uint32_t)p->at2;
        const uint32_t x3 = i3 + (uint32_t)p->at3, inside = x0 < p->len0 && x1 < p->len1 && x2 < p->len2;
        const float *x = p->x + (inside ? x0 * p->x0 + x1 * p->x1 + x2 * p->x2 : 0);
        const uint32_t length = inside ? p->len3 : 0;
        float *y = p->y + i0 * p->y0 + i1 * p->y1 + i2 * p->y2 + i3;
        run = p->n3 - i3 < share.end - i ? p->n3 - i3 : share.end - i;
        for (uint32_t j = 0; j < run; j++) set_word(&y[j], x3 + j < length ? word_at(&x[x3 + j]) : value);
    }
}
