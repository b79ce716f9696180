/* dX of a convolution; the portable kernel defines the bits: each input sums outputs, kernel rows and kernel columns
 * in blocks of whole outputs, over the taps that met it, to what waits in dX; a gate decides what stays.
 *
 * Of every `stride` neighbours each has its own taps, and those of one kind make up an image of their own. */
#include "conv_backward.h"
#define FOURS_KINDS (1 << TWO | 1 << TWO_BUT_FIRST | 1 << ONE)
#include "conv.h"
#include "conv_fours.h"

/* Whether a plane is made of fours of one or two taps in a row, as every second column has them. */
static inline int fits_fours(const conv_t *v, const axis_t *rows, const axis_t *columns) {
    const uint32_t count = columns->count, taps = columns->taps, behind = count - columns->high;
    if ((v->m & 3) || (count & 3) || count == 0 || taps - 1 > 1 || (taps > 1 && columns->apart != CONV_APART) || behind > 1 ||
        columns->step != 2 || columns->tap_step != 2 || columns->low > 0 || (taps == 1 && behind) ||
        taps * rows->taps == 1 || (behind && !lies_inside(columns, count - 1, 1)))
        return 0;
    for (uint32_t i = 0; i < rows->count;) {
        const run_t run = run_at(rows, i);
        if (run.taps == 0) return 0;
        i += run.count;
    }
    return 1;
}

void conv_grad_x_f32(const void *args) {
    const conv_grad_x_f32_args_t *p = args;
    const int one_tap = p->kh * p->kw * p->sh * p->sw == 1 && p->dy_rows == p->ih && p->dy_cols == p->iw &&
                        p->dy_h == p->iw && p->dx_h == p->iw;
    const conv_t v = sums_of(p);
    if (one_tap) {
        one_row(&v, p->ih * p->iw);
        return;
    }
    uint32_t turn = hal_core_id();
    for (uint32_t i = 0; i < p->sh && i < p->ih; i++) {
        const axis_t rows = rows_of(p, i);
        for (uint32_t j = 0; j < p->sw && j < p->iw; j++) {
            const axis_t columns = columns_of(p, j);
            if (fits_fours(&v, &rows, &columns))
                turn = plane_fours(&v, &rows, &columns, turn);
            else
                turn = rectangles(&v, &rows, &columns, 0, turn);
        }
    }
}
