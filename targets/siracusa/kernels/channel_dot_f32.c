/* Sum of dY (X - mean) per channel, on the last tile times inv_std; the portable kernel defines the order. */
#include "channel_dot_f32.h"
#include "hal.h"
#include "pulp.h"

#define CENTRE(x) "fsub.s " x ", " x ", %[mean]\n"
#define OPERANDS [dy] "+&r"(dy), [x] "+&r"(x), [sum] "+&f"(sum)
#define CLOBBERS "ft0", "ft1", "ft2", "ft3", "fa0", "fa1", "fa2", "fa3", "memory"

static inline float products(float sum, const float *dy, const float *x, float mean, uint32_t count) {
    if (count >= 4)
        __asm__ volatile(LOOP("%[turns]", 18)
                         FLW("ft0", "%[x]", 0) FLW("ft1", "%[x]", 4) CENTRE("ft0") FLW("fa0", "%[dy]", 0)
                         CENTRE("ft1") FLW("fa1", "%[dy]", 4) FMA("%[sum]", "fa0", "ft0") FLW("ft2", "%[x]", 8)
                         FMA("%[sum]", "fa1", "ft1") FLW("ft3", "%[x]", 12) CENTRE("ft2") FLW("fa2", "%[dy]", 8)
                         CENTRE("ft3") FLW("fa3", "%[dy]", 12) FMA("%[sum]", "fa2", "ft2") ADDI("%[x]", 16)
                         FMA("%[sum]", "fa3", "ft3") ADDI("%[dy]", 16)
                         LOOP_END(18)
                         : OPERANDS : [mean] "f"(mean), [turns] "r"(count >> 2) : CLOBBERS);
    if (count & 3)
        __asm__ volatile(LOOP("%[turns]", 6)
                         FLW("ft0", "%[x]", 0) FLW("fa0", "%[dy]", 0) CENTRE("ft0") ADDI("%[x]", 4)
                         FMA("%[sum]", "fa0", "ft0") ADDI("%[dy]", 4)
                         LOOP_END(6)
                         : OPERANDS : [mean] "f"(mean), [turns] "r"(count & 3) : CLOBBERS);
    return sum;
}

void channel_dot_f32(const void *args) {
    const channel_dot_f32_args_t *p = args;
    const uint32_t cores = hal_core_count();
    for (uint32_t c = hal_core_id(); c < p->c; c += cores) {
        const float mean = p->mean[c], *dy = p->dy + c * p->dy_c, *x = p->x + c * p->x_c;
        float sum = p->first ? 0.0f : p->y[c];
        for (uint32_t n = 0; n < p->n; n++, dy += p->dy_n, x += p->x_n) sum = products(sum, dy, x, mean, p->s);
        p->y[c] = p->last ? sum * p->inv_std[c] : sum;
    }
}
