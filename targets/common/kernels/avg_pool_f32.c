/* Y = the mean of each window of X, summed in row-major order; positions outside the box are padding, which counts
 * under `include_pad`. */
#include "avg_pool_f32.h"
#include "hal.h"
#include "share_f32.h"

static float window_mean(const avg_pool_f32_args_t *p, const float *x, int32_t row, int32_t column) {
    float sum = 0.0f;
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->kernel_h; i++) {
        const int32_t h = row + (int32_t)(i * p->dilation_h);
        if (h < 0 || h >= (int32_t)p->x_h) continue;
        for (uint32_t k = 0; k < p->kernel_w; k++) {
            const int32_t w = column + (int32_t)(k * p->dilation_w);
            if (w < 0 || w >= (int32_t)p->x_w) continue;
            sum += x[(uint32_t)h * p->x_r + (uint32_t)w];
            count++;
        }
    }
    return sum / (float)(p->include_pad ? p->kernel_h * p->kernel_w : count);
}

void avg_pool_f32(const void *args) {
    const avg_pool_f32_args_t *p = args;
    const share_t share = share_of(p->c * p->h);
    for (uint32_t i = share.begin; i < share.end; i++) {
        const uint32_t c = i / p->h, h = i - c * p->h;
        float *y = p->y + c * p->y_c + h * p->y_r;
        const int32_t row = p->top + (int32_t)(h * p->stride_h);
        for (uint32_t w = 0; w < p->w; w++)
            y[w] = window_mean(p, p->x + c * p->x_c, row, p->left + (int32_t)(w * p->stride_w));
    }
}
