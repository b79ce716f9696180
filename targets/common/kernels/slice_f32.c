/* Y = every step-th element of X along each axis, from the first of X's box on. */
#include "hal.h"
#include "lines_f32.h"
#include "share_f32.h"
#include "slice_f32.h"

void slice_f32(const void *args) {
    const slice_f32_args_t *p = args;
    const share_t share = share_of(p->n0 * p->n1 * p->n2 * p->n3);
    for (uint32_t i = share.begin, run; i < share.end; i += run) {
        const uint32_t i3 = i % p->n3, i012 = i / p->n3, i2 = i012 % p->n2, i01 = i012 / p->n2;
        const uint32_t i1 = i01 % p->n1, i0 = i01 / p->n1;
        const float *x = p->x + i0 * p->step0 * p->x0 + i1 * p->step1 * p->x1 + i2 * p->step2 * p->x2 + i3 * p->step3;
        float *y = p->y + i0 * p->y0 + i1 * p->y1 + i2 * p->y2 + i3;
        run = p->n3 - i3 < share.end - i ? p->n3 - i3 : share.end - i;
        copy_line_f32(y, x, p->step3, run);
    }
}
