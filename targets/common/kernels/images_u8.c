/* Y = X - 128; the channels of X are in front, those of Y innermost. */
#include "images_u8.h"
#include "hal.h"
#include "share_f32.h"

void images_u8(const void *args) {
    const images_u8_args_t *p = args;
    const share_t share = share_of(p->n * p->p);
    if (share.begin == share.end) return;
    uint32_t n = share.begin / p->p, place = share.begin - n * p->p;
    for (uint32_t left = share.end - share.begin; left > 0; left--) {
        const uint8_t *x = p->x + n * p->x_n + place;
        int8_t *y = p->y + n * p->y_n + place * p->y_p;
        for (int8_t *const end = y + p->m; y < end; y++, x += p->x_m) *y = (int8_t)(*x - 128);
        if (++place == p->p) place = 0, n++;
    }
}
