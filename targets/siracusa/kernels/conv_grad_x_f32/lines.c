/* dX of a convolution of one channel in and one out: conv_lines.h. */
#include "conv_backward.h"
#include "conv_lines.h"

void conv_grad_x_f32_lines(const void *args) {
    const conv_grad_x_f32_args_t *p = args;
    const conv_t v = sums_of(p, most_taps(p));
    uint32_t turn = hal_core_id();
    for (uint32_t i = 0; i < p->sh && i < p->ih; i++) {
        const axis_t rows = rows_of(p, i);
        for (uint32_t j = 0; j < p->sw && j < p->iw; j++) {
            const axis_t columns = columns_of(p, j);
            turn = plane_lines(&v, &rows, &columns, turn);
        }
    }
}
