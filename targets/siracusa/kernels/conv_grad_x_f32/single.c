/* dX of a convolution of one tap that has no padding: conv_single.h. Inputs between windows have no tap. */
#include "conv_backward.h"
#include "conv_single.h"

/* Inputs that no window meets: zeros in a first part, else what they were. */
static __attribute__((noinline)) uint32_t zeros(const conv_t *v, const rectangle_t *r, uint32_t turn) {
    const uint32_t cores = hal_core_count(), channels = 4 * channels_of(v);
    if (!v->first && !has_epilogue(v)) return turn;
    for (; turn < channels; turn += cores) {
        const uint32_t m = turn & 3;
        float *y = place_of(v, r, turn >> 2).y + m * v->y_m;
        for (uint32_t row = r->rows; row > 0; row--, y += r->y_row) {
            if (!v->first) {
                epilogue_row(v, y, r->columns, r->y_column);
                continue;
            }
            float *to = y;
            __asm__ volatile(LOOP("%[count]", 3) "sw zero, 0(%[to])\n" ADD("%[to]", "%[step]") "nop\n" LOOP_END(3)
                             : [to] "+&r"(to) : [step] "r"(4 * r->y_column), [count] "r"(r->columns) : "memory");
        }
    }
    return turn - channels;
}

void conv_grad_x_f32_single(const void *args) {
    const conv_grad_x_f32_args_t *p = args;
    const conv_t v = sums_of(p, most_taps(p));
    uint32_t turn = hal_core_id();
    for (uint32_t i = 0; i < p->sh && i < p->ih; i++) {
        const axis_t rows = rows_of(p, i);
        for (uint32_t j = 0; j < p->sw && j < p->iw; j++) {
            const axis_t columns = columns_of(p, j);
            rectangle_t r = {
                .x = p->dy + rows.at * (int32_t)p->dy_h + columns.at, .weights = p->w, .y = p->dx + i * p->dx_h + j,
                .rows = rows.count, .columns = columns.count, .h = 1, .w = 1, .y_row = p->sh * p->dx_h,
                .y_column = p->sw, .x_row = (int32_t)p->dy_h, .x_column = 1, .x_step = {0, 0, 0}, .w_step = {0, 0, 0},
            };
            if (p->sh * p->sw == 1 && p->dy_h == p->iw && p->dx_h == p->iw) r.rows = 1, r.columns *= p->ih;
            turn = rows.taps * columns.taps == 0 ? zeros(&v, &r, turn) : single_taps(&v, &r, turn);
        }
    }
}
