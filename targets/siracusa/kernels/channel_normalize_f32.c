/* Y = X factor + shift with one of each per channel; the portable kernel defines the order. */
#include "channel_normalize_f32.h"
#include "hal.h"
#include "pulp.h"
#include "share_f32.h"

#define SCALE(x) "fmadd.s " x ", " x ", %[factor], %[shift]\n"
#define OPERANDS [x] "+&r"(x), [y] "+&r"(y)
#define CONSTANTS [factor] "f"(factor), [shift] "f"(shift)
#define CLOBBERS "ft0", "ft1", "ft2", "ft3", "memory"

static inline void normalize(const float *x, float *y, float factor, float shift, uint32_t count) {
    if (count >= 4)
        __asm__ volatile(LOOP("%[turns]", 14)
                         FLW("ft0", "%[x]", 0) FLW("ft1", "%[x]", 4) SCALE("ft0") FLW("ft2", "%[x]", 8) SCALE("ft1")
                         FLW("ft3", "%[x]", 12) SCALE("ft2") FSW("ft0", "%[y]", 0) SCALE("ft3") FSW("ft1", "%[y]", 4)
                         ADDI("%[x]", 16) FSW("ft2", "%[y]", 8) FSW("ft3", "%[y]", 12) ADDI("%[y]", 16)
                         LOOP_END(14)
                         : OPERANDS : CONSTANTS, [turns] "r"(count >> 2) : CLOBBERS);
    if (count & 3)
        __asm__ volatile(LOOP("%[turns]", 5)
                         FLW("ft0", "%[x]", 0) ADDI("%[x]", 4) SCALE("ft0") FSW("ft0", "%[y]", 0) ADDI("%[y]", 4)
                         LOOP_END(5)
                         : OPERANDS : CONSTANTS, [turns] "r"(count & 3) : CLOBBERS);
}

void channel_normalize_f32(const void *args) {
    const channel_normalize_f32_args_t *p = args;
    const share_t share = share_of(p->n * p->c * p->s);
    const uint32_t row = share.begin / p->s;
    uint32_t first = share.begin - row * p->s, n = row < p->c ? 0 : row / p->c, c = row - n * p->c;
    for (uint32_t left = share.end - share.begin, run; left > 0; left -= run, first = 0) {
        const float factor = p->inv_std[c] * p->scale[c];
        run = hal_min(left, p->s - first);
        normalize(p->x + n * p->x_n + c * p->x_c + first, p->y + n * p->y_n + c * p->y_c + first, factor,
                  __builtin_fmaf(-p->mean[c], factor, p->bias[c]), run);
        if (++c == p->c) c = 0, n++;
    }
}
