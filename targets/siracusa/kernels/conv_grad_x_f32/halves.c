/* dX of a convolution of windows that move by two columns: conv.h. */
#define CONV_GOES_ON 0
#include "conv_backward.h"
#define CONV_CHANNELS 4
#define CONV_TAPS 2
#include "conv.h"

void conv_grad_x_f32_halves(const void *args) {
    const conv_grad_x_f32_args_t *p = args;
    /* What is known of such windows stands here as constants, which keeps the code within the cache. */
    const conv_t v = sums_of(p, (p->kh + p->step_h - 1) / p->step_h * ((p->kw + 1) / 2));
    uint32_t turn = hal_core_id();
    for (uint32_t i = 0; i < p->sh; i++) {
        const axis_t rows = rows_of(p, i);
        for (uint32_t j = 0; j < 2; j++) {
            const axis_t columns = axis_of(j, p->iw, p->left, 2, p->kw, 1, 2, 1, p->dy_cols);
            turn = rectangles(&v, &rows, &columns, 0, turn);
        }
    }
}
