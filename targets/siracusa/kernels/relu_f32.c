/* Y = X where X > 0, NaN stays NaN, else 0.
 *
 * As integers: the larger of the bits and 0. Only a NaN with its sign set comes out wrong; such bits are the largest of
 * all without sign, so that the largest bits of a share tell whether it has to be done again. */
#include "relu_f32.h"
#include "hal.h"
#include "pulp.h"
#include "share_f32.h"

#define MINUS_INFINITY 0xff800000u

void relu_f32(const void *args) {
    const relu_f32_args_t *p = args;
    const share_t share = share_of(p->n);
    const uint32_t count = share.end - share.begin;
    const float *x = p->x + share.begin;
    float *y = p->y + share.begin;
    uint32_t first, second, larger, largest = 0;
    if (count >= 2)
        __asm__ volatile(LOOP("%[pairs]", 8) LW_NEXT("%[first]", "%[x]", 4) LW_NEXT("%[second]", "%[x]", 4)
                             MAX("%[larger]", "%[first]", "zero") MAX_UNSIGNED("%[largest]", "%[largest]", "%[first]")
                             SW_NEXT("%[larger]", "%[y]", 4) MAX("%[larger]", "%[second]", "zero")
                             MAX_UNSIGNED("%[largest]", "%[largest]", "%[second]") SW_NEXT("%[larger]", "%[y]", 4)
                             LOOP_END(8)
                         : [x] "+&r"(x), [y] "+&r"(y), [first] "=&r"(first), [second] "=&r"(second),
                           [larger] "=&r"(larger), [largest] "+&r"(largest)
                         : [pairs] "r"(count >> 1)
                         : "memory");
    if (count & 1) *y = *x <= 0.0f ? 0.0f : *x;
    if (largest <= MINUS_INFINITY) return;
    for (uint32_t i = share.begin; i < share.end; i++) p->y[i] = p->x[i] <= 0.0f ? 0.0f : p->x[i];
}
