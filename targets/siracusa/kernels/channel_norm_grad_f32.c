/* dX = X slope + (dY factor + shift) with one of each per channel; the portable kernel defines the order. */
#include "channel_norm_grad_f32.h"
#include "hal.h"
#include "pulp.h"
#include "share_f32.h"

#define SCALE(dy) "fmadd.s " dy ", " dy ", %[factor], %[shift]\n"
#define SLOPE(x, dy) "fmadd.s " x ", " x ", %[slope], " dy "\n"
#define OPERANDS [dy] "+&r"(dy), [x] "+&r"(x), [dx] "+&r"(dx)
#define CONSTANTS [factor] "f"(factor), [shift] "f"(shift), [slope] "f"(slope)
#define CLOBBERS "ft0", "ft1", "ft2", "ft3", "fa0", "fa1", "fa2", "fa3", "memory"

static inline void grad(const float *dy, const float *x, float *dx, float factor, float shift, float slope,
                        uint32_t count) {
    if (count >= 4)
        __asm__ volatile(LOOP("%[turns]", 23)
                         FLW("fa0", "%[dy]", 0) FLW("ft0", "%[x]", 0) SCALE("fa0") FLW("fa1", "%[dy]", 4)
                         SLOPE("ft0", "fa0") FLW("ft1", "%[x]", 4) SCALE("fa1") FLW("fa2", "%[dy]", 8)
                         SLOPE("ft1", "fa1") FSW("ft0", "%[dx]", 0) SCALE("fa2") FLW("ft2", "%[x]", 8)
                         FSW("ft1", "%[dx]", 4) SLOPE("ft2", "fa2") FLW("fa3", "%[dy]", 12) ADDI("%[dy]", 16)
                         SCALE("fa3") FLW("ft3", "%[x]", 12) ADDI("%[x]", 16) SLOPE("ft3", "fa3")
                         FSW("ft2", "%[dx]", 8) FSW("ft3", "%[dx]", 12) ADDI("%[dx]", 16)
                         LOOP_END(23)
                         : OPERANDS : CONSTANTS, [turns] "r"(count >> 2) : CLOBBERS);
    if (count & 3)
        __asm__ volatile(LOOP("%[turns]", 8)
                         FLW("fa0", "%[dy]", 0) FLW("ft0", "%[x]", 0) SCALE("fa0") ADDI("%[dy]", 4)
                         SLOPE("ft0", "fa0") ADDI("%[x]", 4) FSW("ft0", "%[dx]", 0) ADDI("%[dx]", 4)
                         LOOP_END(8)
                         : OPERANDS : CONSTANTS, [turns] "r"(count & 3) : CLOBBERS);
}

void channel_norm_grad_f32(const void *args) {
    const channel_norm_grad_f32_args_t *p = args;
    const share_t share = share_of(p->n * p->c * p->s);
    const uint32_t row = share.begin / p->s;
    const float inverse = LITERAL_F32(1.0f) / p->count;
    uint32_t first = share.begin - row * p->s, n = row < p->c ? 0 : row / p->c, c = row - n * p->c;
    for (uint32_t left = share.end - share.begin, run; left > 0; left -= run, first = 0) {
        const float factor = p->scale[c] * p->inv_std[c], each = factor * inverse;
        const float slope = -(each * p->inv_std[c] * p->dscale[c]);
        run = hal_min(left, p->s - first);
        grad(p->dy + n * p->dy_n + c * p->dy_c + first, p->x + n * p->x_n + c * p->x_c + first,
             p->dx + n * p->dx_n + c * p->dx_c + first, factor, -__builtin_fmaf(p->mean[c], slope, each * p->dbias[c]),
             slope, run);
        if (++c == p->c) c = 0, n++;
    }
}
