/* dW of a convolution. Each tap sums batch, rows and columns of dY in blocks, as products_f32.h says, without padding.
 * A block is some rows of an image, or a part of a long row; rows that all meet padding are none. So the bits do not
 * depend on tiles or cores. Between tiles of the outermost sum that is longer than one, dW holds the raw total. */
#include "conv_grad_w_f32.h"
#include "hal.h"
#include "products_f32.h"
#include "taps_f32.h"

void conv_grad_w_f32(const void *args) {
    const conv_grad_w_f32_args_t *p = args;
    const uint32_t rows = products_block(p->oh, p->ow), columns = PRODUCTS_BLOCK;
    const share_t share = share_of(p->g * p->m * p->c * p->kh * p->kw);
    for (uint32_t i = share.begin; i < share.end; i++) {
        const uint32_t kw = i % p->kw, row = i / p->kw, kh = row % p->kh, channel = row / p->kh;
        const uint32_t c = channel % p->c, output = channel / p->c, m = output % p->m, g = output / p->m;
        const int32_t top = p->top + (int32_t)(kh * p->dh), left = p->left + (int32_t)(kw * p->dw);
        const share_t oh = taps_inside(top, p->oh, p->sh, p->x_rows);
        const share_t ow = taps_inside(left, p->ow, p->sw, p->x_cols);
        const float *dy = p->dy + g * p->dy_g + m * p->dy_m, *x = p->x + g * p->x_g + c * p->x_c;
        float *dw = p->grad + g * p->dw_g + m * p->dw_m + c * p->dw_c + kh * p->kw + kw;
        float sum = p->first ? 0.0f : *dw;
        for (uint32_t n = 0; n < p->n; n++)
            for (uint32_t a = oh.begin, a_end; a < oh.end; a = a_end) {
                a_end = hal_min((a / rows + 1) * rows, oh.end);
                for (uint32_t b = 0; b < p->ow; b += columns) {
                    const uint32_t begin = b > ow.begin ? b : ow.begin, end = hal_min(b + columns, ow.end);
                    float block = p->single ? sum : 0.0f;
                    for (uint32_t h = a; h < a_end; h++) {
                        const float *dy_row = dy + n * p->dy_n + h * p->dy_h;
                        const float *x_row = x + n * p->x_n + (uint32_t)(top + (int32_t)(h * p->sh)) * p->x_h;
                        for (uint32_t j = begin; j < end; j++)
                            block = __builtin_fmaf(dy_row[j], x_row[left + (int32_t)(j * p->sw)], block);
                    }
                    sum = products_add(sum, block, p->single || (p->first && n == 0 && a < rows && b == 0));
                }
            }
        *dw = sum;
    }
}
