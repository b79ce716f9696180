/* Y = X * W + B with groups; the portable kernel defines the bits: each output sums channels, kernel rows and kernel
 * columns in blocks of whole channels, to what waits in Y, skips taps in padding, adds the bias, then does Relu. */
#include "conv_forward.h"
#define CONV_CHANNELS 5
#define CONV_TAPS 0
#include "conv.h"

void conv_f32(const void *args) {
    const conv_f32_args_t *p = args;
    const conv_t v = sums_of(p);
    const axis_t rows = rows_of(p), columns = columns_of(p);
    rectangles(&v, &rows, &columns, 0, hal_core_id());
}
