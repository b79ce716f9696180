/* dX of a convolution of windows of three columns that move by two, in planes of whole fours: conv_fours.h. */
#include "conv_backward.h"
#define FOURS_KINDS (1 << TWO | 1 << TWO_BUT_FIRST | 1 << ONE)
#include "conv_fours.h"

void conv_grad_x_f32_thinned(const void *args) {
    const conv_grad_x_f32_args_t *p = args;
    const conv_t v = sums_of(p, most_taps(p));
    uint32_t turn = hal_core_id();
    for (uint32_t i = 0; i < p->sh && i < p->ih; i++) {
        const axis_t rows = rows_of(p, i);
        for (uint32_t j = 0; j < 2; j++) {
            const axis_t columns = columns_of(p, j);
            turn = plane_fours(&v, &rows, &columns, turn);
        }
    }
}
