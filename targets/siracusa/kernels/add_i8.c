/* Y = (A - zero) * ratio + (B - zero) * ratio, rounded half to even and clipped, four at a time. */
#include "add_i8.h"
#include "hal.h"
#include "requantize_i8.h"
#include "round_i8.h"
#include "share_f32.h"

static inline float sum(const add_i8_args_t *p, int32_t a, int32_t b, int32_t a_zero, int32_t b_zero) {
    return (float)(a - a_zero) * p->a_ratio + (float)(b - b_zero) * p->b_ratio;
}

void add_i8(const void *args) {
    const add_i8_args_t *p = args;
    const share_t share = share_of(p->n >> 2);
    const float a_ratio = p->a_ratio, b_ratio = p->b_ratio;
    const int32_t low = (int32_t)p->low, high = (int32_t)p->high, a_zero = p->a_zero, b_zero = p->b_zero;
    const uint32_t zeros = in_each_byte(p->zero);
    const int8_t *a = p->a + 4 * share.begin, *b = p->b + 4 * share.begin;
    int8_t *y = p->y + 4 * share.begin;
    for (const int8_t *const end = p->a + 4 * share.end; a < end; a += 4, b += 4, y += 4) {
        int32_t numbers[4];
#pragma GCC unroll 4
        for (uint32_t k = 0; k < 4; k++)
            numbers[k] = rounded((float)(a[k] - a_zero) * a_ratio + (float)(b[k] - b_zero) * b_ratio, low, high);
        put_four(y, four_of(numbers, zeros));
    }
    if (hal_core_id() > 0) return;
    for (uint32_t i = p->n & ~3u; i < p->n; i++)
        p->y[i] = rounded_i8(sum(p, p->a[i], p->b[i], a_zero, b_zero), p->low, p->high, p->zero);
}
