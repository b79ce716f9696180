/* A convolution of windows of three columns that move by two: conv_fours.h. */
#include "conv_forward.h"
#define FOURS_KINDS (1 << MOVING | 1 << MOVING_BUT_FIRST)
#include "conv_fours.h"

void conv_f32_moving(const void *args) {
    const conv_f32_args_t *p = args;
    const conv_t v = sums_of(p);
    const axis_t rows = rows_of(p), columns = columns_of(p);
    plane_fours(&v, &rows, &columns, hal_core_id());
}
