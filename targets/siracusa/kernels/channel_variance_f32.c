/* Mean of (X - mean)^2 per channel; the portable kernel defines the order. */
#include "channel_variance_f32.h"
#include "hal.h"
#include "pulp.h"
#include "sum_f32.h"

#define CENTRE(x) "fsub.s " x ", " x ", %[mean]\n"
#define SQUARE(x) FMA("%[sum]", x, x)
#define OPERANDS [x] "+&r"(x), [sum] "+&f"(sum)
#define CLOBBERS "ft0", "ft1", "ft2", "ft3", "memory"

/* Leaves x behind the elements. */
static inline float squares(float sum, const float **from, float mean, uint32_t count) {
    const float *x = *from;
    if (count >= 4)
        __asm__ volatile(LOOP("%[turns]", 13)
                         FLW("ft0", "%[x]", 0) FLW("ft1", "%[x]", 4) CENTRE("ft0") FLW("ft2", "%[x]", 8) CENTRE("ft1")
                         FLW("ft3", "%[x]", 12) SQUARE("ft0") ADDI("%[x]", 16) CENTRE("ft2") SQUARE("ft1")
                         CENTRE("ft3") SQUARE("ft2") SQUARE("ft3")
                         LOOP_END(13)
                         : OPERANDS : [mean] "f"(mean), [turns] "r"(count >> 2) : CLOBBERS);
    if (count & 3)
        __asm__ volatile(LOOP("%[turns]", 4)
                         FLW("ft0", "%[x]", 0) ADDI("%[x]", 4) CENTRE("ft0") SQUARE("ft0")
                         LOOP_END(4)
                         : OPERANDS : [mean] "f"(mean), [turns] "r"(count & 3) : CLOBBERS);
    *from = x;
    return sum;
}

void channel_variance_f32(const void *args) {
    const channel_variance_f32_args_t *p = args;
    const uint32_t cores = hal_core_count(), size = sum_size(p->carry), gap = p->x_n - p->s;
    for (uint32_t c = hal_core_id(); c < p->c; c += cores) {
        const float mean = p->mean[c], *x = p->x + c * p->x_c;
        float *const carry = size ? p->carry + SUM_CARRIED * c : 0;
        sum_t sum = sum_begin(p->first, size, p->y[c], carry);
        for (uint32_t n = 0; n < p->n; n++, x += gap) {
            if (n > 0 || !p->first) sum_row(&sum, size, p->start);
            for (uint32_t position = p->start, left = p->s; left > 0;) {
                const uint32_t count = sum_next(&sum, size, position, left);
                sum.block = squares(sum.block, &x, mean, count);
                position += count, left -= count;
            }
        }
        if (p->last) {
            p->y[c] = sum_value(&sum, size) * p->inverse_count;
            sum_end(size, carry);
        } else
            p->y[c] = sum_wait(&sum, size, carry);
    }
}
