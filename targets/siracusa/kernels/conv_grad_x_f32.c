/* dX of a convolution; the portable kernel defines the bits: each input sums outputs, kernel rows and kernel columns
 * in blocks of whole outputs, over the taps that met it, to what waits in dX; a gate decides what stays.
 *
 * Of every `stride` neighbours each has its own taps, and those of one kind make up an image of their own. */
#include "conv_backward.h"
#define CONV_CHANNELS 5
#define CONV_TAPS 0
#include "conv.h"

void conv_grad_x_f32(const void *args) {
    const conv_grad_x_f32_args_t *p = args;
    const conv_t v = sums_of(p, most_taps(p));
    uint32_t turn = hal_core_id();
    for (uint32_t i = 0; i < p->sh && i < p->ih; i++) {
        const axis_t rows = rows_of(p, i);
        for (uint32_t j = 0; j < p->sw && j < p->iw; j++) {
            const axis_t columns = columns_of(p, j);
            turn = rectangles(&v, &rows, &columns, 0, turn);
        }
    }
}
