/* dX of a convolution of windows of three columns without stride: conv_fours.h. */
#include "conv_backward.h"
#define FOURS_KINDS (1 << THREE | 1 << THREE_BUT_FIRST | 1 << THREE_BUT_LAST)
#include "conv_fours.h"

void conv_grad_x_f32_fours(const void *args) {
    const conv_grad_x_f32_args_t *p = args;
    const conv_t v = sums_of(p, most_taps(p));
    const axis_t rows = near_rows_of(p), columns = near_columns_of(p);
    plane_fours(&v, &rows, &columns, hal_core_id());
}
