/* Y = X * W + B with groups; the portable kernel defines the bits: each output sums channels, kernel rows and kernel
 * columns in blocks of whole channels, to what waits in Y, skips taps in padding, adds the bias, then does Relu. */
#include "conv_forward.h"
#include "conv.h"

void conv_f32(const void *args) {
    const conv_f32_args_t *p = args;
    const int one_tap = p->kh * p->kw * p->sh * p->sw == 1 && p->x_rows == p->oh && p->x_cols == p->ow &&
                        p->x_h == p->ow && p->y_h == p->ow;
    const conv_t v = sums_of(p);
    if (one_tap) {
        one_row(&v, p->oh * p->ow);
        return;
    }
    const axis_t rows = rows_of(p), columns = columns_of(p);
    rectangles(&v, &rows, &columns, 0, hal_core_id());
}
