/* dX of a convolution of windows that move by two columns: conv.h. */
#define CONV_COMMON
#include "conv_backward.h"
#define CONV_CHANNELS 4
#define CONV_TAPS 2
#include "conv.h"

void conv_grad_x_f32_halves(const void *args) {
    const conv_grad_x_f32_args_t *p = args;
    const conv_t v = sums_of(p);
    uint32_t turn = hal_core_id();
    for (uint32_t i = 0; i < p->sh && i < p->ih; i++) {
        const axis_t rows = rows_of(p, i);
        for (uint32_t j = 0; j < 2 && j < p->iw; j++) {
            const axis_t columns = columns_of(p, j);
            turn = rectangles(&v, &rows, &columns, 0, turn);
        }
    }
}
