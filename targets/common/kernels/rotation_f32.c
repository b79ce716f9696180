/* Pairs (a, b) of X become (a cos - b sin, b cos + a sin), with sin times a sign, and with a zero added. Elements of a row
 * before and behind them are kept, with a zero added. A core has whole rows. */
#include "rotation_f32.h"
#include "hal.h"
#include "share_f32.h"

void rotation_f32(const void *args) {
    const rotation_f32_args_t *p = args;
    const share_t share = share_of(p->o * p->t * p->m);
    const uint32_t rows = p->t * p->m;
    uint32_t o = share.begin / rows, t = (share.begin - o * rows) / p->m, m = share.begin - o * rows - t * p->m;
    for (uint32_t row = share.begin; row < share.end; row++) {
        const float *x = p->x + o * p->x_o + t * p->x_t + m * p->x_m, *cos = p->cos + t * p->cos_t, *sin = p->sin + t * p->sin_t;
        float *y = p->y + o * p->y_o + t * p->y_t + m * p->y_m;
        for (uint32_t j = 0; j < p->before; j++) *y++ = *x++ + p->kept_zero;
        for (uint32_t j = 0; j < p->j; j++) {
            const float a = x[j * p->x_j], b = x[j * p->x_j + p->x_p], turn = p->sign * sin[j * p->step];
            const float a_cos = a * cos[j * p->step], b_sin = b * turn, b_cos = b * cos[j * p->step], a_sin = a * turn;
            y[j * p->y_j] = (a_cos - b_sin) + p->zero;
            y[j * p->y_j + p->y_p] = (b_cos + a_sin) + p->zero;
        }
        x += 2 * p->j, y += 2 * p->j;
        for (uint32_t j = 0; j < p->behind; j++) y[j] = x[j] + p->kept_zero;
        if (++m == p->m) {
            m = 0;
            if (++t == p->t) t = 0, o++;
        }
    }
}
