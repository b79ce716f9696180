/* A convolution of windows of three columns: conv.h. */
#include "conv_forward.h"
#define CONV_CHANNELS 4
#define CONV_TAPS 3
#include "conv.h"

void conv_f32_threes(const void *args) {
    const conv_f32_args_t *p = args;
    const conv_t v = sums_of(p);
    const axis_t rows = rows_of(p), columns = columns_of(p);
    rectangles(&v, &rows, &columns, 0, hal_core_id());
}
