/* dX = dY at every step-th element along each axis, 0 between them; dX's first element lies `at` behind that of dY. */
#include "hal.h"
#include "share_f32.h"
#include "slice_grad_f32.h"

/* The element of dY's box at a distance from its first, `length` where there is none. */
static uint32_t taken(uint32_t distance, uint32_t step, uint32_t length) {
    const uint32_t at = distance / step;
    return at < length && at * step == distance ? at : length;
}

void slice_grad_f32(const void *args) {
    const slice_grad_f32_args_t *p = args;
    const share_t share = share_of(p->n0 * p->n1 * p->n2 * p->n3);
    for (uint32_t i = share.begin, run; i < share.end; i += run) {
        const uint32_t i3 = i % p->n3, i012 = i / p->n3, i2 = i012 % p->n2, i01 = i012 / p->n2;
        const uint32_t i1 = i01 % p->n1, i0 = i01 / p->n1;
        const uint32_t y0 = taken(i0 + (uint32_t)p->at0, p->step0, p->len0);
        const uint32_t y1 = taken(i1 + (uint32_t)p->at1, p->step1, p->len1);
        const uint32_t y2 = taken(i2 + (uint32_t)p->at2, p->step2, p->len2);
        const uint32_t inside = y0 < p->len0 && y1 < p->len1 && y2 < p->len2, length = inside ? p->len3 : 0;
        const float *dy = p->dy + (inside ? y0 * p->dy0 + y1 * p->dy1 + y2 * p->dy2 : 0);
        float *dx = p->dx + i0 * p->dx0 + i1 * p->dx1 + i2 * p->dx2 + i3;
        run = p->n3 - i3 < share.end - i ? p->n3 - i3 : share.end - i;
        for (uint32_t j = 0; j < run; j++) {
            const uint32_t y3 = taken(i3 + j + (uint32_t)p->at3, p->step3, length);
            dx[j] = y3 < length ? dy[y3] : 0.0f;
        }
    }
}
