/* A convolution of one channel in and one out: conv_lines.h. */
#include "conv_forward.h"
#include "conv_lines.h"

void conv_f32_lines(const void *args) {
    const conv_f32_args_t *p = args;
    const conv_t v = sums_of(p);
    const axis_t rows = rows_of(p), columns = columns_of(p);
    plane_lines(&v, &rows, &columns, hal_core_id());
}
