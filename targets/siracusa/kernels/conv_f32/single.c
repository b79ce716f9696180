/* A convolution of one tap that has no padding: conv_single.h. */
#include "conv_forward.h"
#include "conv_single.h"

void conv_f32_single(const void *args) {
    const conv_f32_args_t *p = args;
    const conv_t v = sums_of(p);
    rectangle_t r = {
        .x = p->x + p->top * (int32_t)p->x_h + p->left, .weights = p->w, .y = p->y, .rows = p->oh, .columns = p->ow,
        .h = 1, .w = 1, .y_row = p->y_h, .y_column = 1, .x_row = (int32_t)(p->sh * p->x_h),
        .x_column = (int32_t)p->sw, .x_step = {0, 0, 0}, .w_step = {0, 0, 0},
    };
    if (p->sh * p->sw == 1 && p->x_h == p->ow && p->y_h == p->ow) r.rows = 1, r.columns *= p->oh; /* whole rows */
    single_taps(&v, &r, hal_core_id());
}
