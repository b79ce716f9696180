/* dX = 0, then each window, in ascending order, adds its dY over its count to its elements. */
#include "avg_pool_grad_f32.h"
#include "hal.h"
#include "share_f32.h"

/* Positions of a window along one axis that lie inside it. */
static uint32_t inside(int32_t first, uint32_t kernel, uint32_t dilation, uint32_t size) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < kernel; k++) {
        const int32_t at = first + (int32_t)(k * dilation);
        count += at >= 0 && at < (int32_t)size;
    }
    return count;
}

static void spread(const avg_pool_grad_f32_args_t *p, float *dx, int32_t row, int32_t column, float value) {
    for (uint32_t i = 0; i < p->kernel_h; i++) {
        const int32_t h = row + (int32_t)(i * p->dilation_h);
        if (h < 0 || h >= (int32_t)p->x_h) continue;
        for (uint32_t k = 0; k < p->kernel_w; k++) {
            const int32_t w = column + (int32_t)(k * p->dilation_w);
            if (w >= 0 && w < (int32_t)p->x_w) dx[(uint32_t)h * p->x_w + (uint32_t)w] += value;
        }
    }
}

void avg_pool_grad_f32(const void *args) {
    const avg_pool_grad_f32_args_t *p = args;
    const share_t share = share_of(p->c);
    for (uint32_t c = share.begin; c < share.end; c++) {
        const float *dy = p->dy + c * p->y_h * p->y_w;
        float *dx = p->dx + c * p->x_h * p->x_w;
        for (uint32_t i = 0; i < p->x_h * p->x_w; i++) {
            dx[i] = 0.0f;
            __asm__ volatile(""); /* or a compiler calls memset, which is not there */
        }
        for (uint32_t h = 0; h < p->y_h; h++)
            for (uint32_t w = 0; w < p->y_w; w++) {
                const int32_t row = p->top + (int32_t)(h * p->stride_h), column = p->left + (int32_t)(w * p->stride_w);
                uint32_t count = p->kernel_h * p->kernel_w;
                if (!p->include_pad)
                    count = inside(row, p->kernel_h, p->dilation_h, p->x_h) *
                            inside(column, p->kernel_w, p->dilation_w, p->x_w);
                spread(p, dx, row, column, dy[h * p->y_w + w] / (float)count);
            }
    }
}
