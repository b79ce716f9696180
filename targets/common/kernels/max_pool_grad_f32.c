/* dX = 0, then each window, in ascending order, adds its dY to its first maximum of X. */
#include "hal.h"
#include "max_pool_grad_f32.h"
#include "share_f32.h"

static uint32_t first_max(const max_pool_grad_f32_args_t *p, const float *x, int32_t row, int32_t column) {
    uint32_t best = 0, found = 0;
    for (uint32_t i = 0; i < p->kernel_h; i++) {
        const int32_t h = row + (int32_t)(i * p->dilation_h);
        if (h < 0 || h >= (int32_t)p->x_h) continue;
        for (uint32_t k = 0; k < p->kernel_w; k++) {
            const int32_t w = column + (int32_t)(k * p->dilation_w);
            if (w < 0 || w >= (int32_t)p->x_w) continue;
            const uint32_t at = (uint32_t)h * p->x_w + (uint32_t)w;
            if (!found || x[at] > x[best]) best = at;
            found = 1;
        }
    }
    return best;
}

void max_pool_grad_f32(const void *args) {
    const max_pool_grad_f32_args_t *p = args;
    const share_t share = share_of(p->c);
    for (uint32_t c = share.begin; c < share.end; c++) {
        const float *dy = p->dy + c * p->y_h * p->y_w, *x = p->x + c * p->x_h * p->x_w;
        float *dx = p->dx + c * p->x_h * p->x_w;
        for (uint32_t i = 0; i < p->x_h * p->x_w; i++) {
            dx[i] = 0.0f;
            __asm__ volatile(""); /* or a compiler calls memset, which is not there */
        }
        for (uint32_t h = 0; h < p->y_h; h++)
            for (uint32_t w = 0; w < p->y_w; w++) {
                const int32_t row = p->top + (int32_t)(h * p->stride_h), column = p->left + (int32_t)(w * p->stride_w);
                dx[first_max(p, x, row, column)] += dy[h * p->y_w + w];
            }
    }
}
