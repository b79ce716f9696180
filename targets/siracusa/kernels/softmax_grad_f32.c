/* dX = alpha Y (dY - sum(dY Y)) over the classes of each row, in the order of sum_f32.h. */
#include "softmax_grad_f32.h"
#include "hal.h"
#include "pulp.h"
#include "sum_f32.h"

/* An open block with some elements more; leaves both pointers behind them. */
static inline float add_part(float sum, const float **dy, uint32_t dy_next, const float **y, uint32_t y_next, uint32_t count) {
    __asm__(LOOP("%[count]", 5)
            FLW("ft0", "%[dy]", 0) FLW("ft1", "%[y]", 0) ADD("%[dy]", "%[dy_next]") ADD("%[y]", "%[y_next]")
            FMA("%[sum]", "ft0", "ft1") LOOP_END(5)
            : [dy] "+&r"(*dy), [y] "+&r"(*y), [sum] "+&f"(sum)
            : [dy_next] "r"(dy_next), [y_next] "r"(y_next), [count] "r"(count)
            : "ft0", "ft1", "memory");
    return sum;
}

void softmax_grad_f32(const void *args) {
    const softmax_grad_f32_args_t *p = args;
    const uint32_t rows = p->outer * p->inner, classes = p->classes, size = classes > SUM_BLOCK ? SUM_BLOCK : 0;
    const uint32_t dy_next = 4 * p->dy_c, y_next = 4 * p->y_c, dx_next = 4 * p->dx_c;
    for (uint32_t i = hal_core_id(); i < rows; i += hal_core_count()) {
        const uint32_t outer = p->inner > 1 ? i / p->inner : i, inner = i - outer * p->inner;
        const float *dy = p->dy + outer * p->dy_o + inner, *y = p->y + outer * p->y_o + inner;
        float *dx = p->dx + outer * p->dx_o + inner;
        const float *dy_again = dy, *y_again = y;
        sum_t dot = {0};
        for (uint32_t c = 0, count; c < classes; c += count) {
            count = sum_next(&dot, size, c, classes - c);
            dot.block = add_part(dot.block, &dy, dy_next, &y, y_next, count);
        }
        __asm__ volatile(LOOP("%[count]", 9)
                         FLW("ft0", "%[dy]", 0) FLW("ft1", "%[y]", 0) ADD("%[dy]", "%[dy_next]")
                         "fsub.s ft0, ft0, %[sum]\n" ADD("%[y]", "%[y_next]") "fmul.s ft0, ft1, ft0\n"
                         "fmul.s ft0, ft0, %[alpha]\n" FSW("ft0", "%[dx]", 0) ADD("%[dx]", "%[dx_next]") LOOP_END(9)
                         : [dy] "+&r"(dy_again), [y] "+&r"(y_again), [dx] "+&r"(dx)
                         : [sum] "f"(sum_value(&dot, size)), [dy_next] "r"(dy_next), [y_next] "r"(y_next),
                           [dx_next] "r"(dx_next), [count] "r"(classes), [alpha] "f"(p->alpha)
                         : "ft0", "ft1", "memory");
    }
}
