/* dX = inv_std (dY scale - total / count - (X - mean) inv_std dot / count), with count elements in a row; the portable kernel
 * defines the order. */
#include "layer_norm_grad_f32.h"
#include "hal.h"
#include "row_loop.h"
#include "share_f32.h"

#define SCALE(dy, scale) "fmsub.s " dy ", " dy ", " scale ", %[shift]\n"
#define CENTRE(x) "fsub.s " x ", %[mean], " x "\n"
#define SLOPE(x, dy) "fmadd.s " x ", " x ", %[slope], " dy "\n"
#define UNIT(x) "fmul.s " x ", " x ", %[inv_std]\n"
/* 16 instructions for two neighbours. */
#define PAIR(at, behind)                                                                                              \
    FLW("fa0", "%[dy]", at) FLW("fa2", "%[scale]", at) FLW("ft0", "%[x]", at) SCALE("fa0", "fa2")                     \
    FLW("fa1", "%[dy]", behind) CENTRE("ft0") FLW("fa3", "%[scale]", behind) SLOPE("ft0", "fa0")                      \
    FLW("ft1", "%[x]", behind) SCALE("fa1", "fa3") UNIT("ft0") CENTRE("ft1") FSW("ft0", "%[dx]", at)                  \
    SLOPE("ft1", "fa1") UNIT("ft1") FSW("ft1", "%[dx]", behind)

static inline void row_of(float *dx, const float *dy, const float *x, const float *scale, float mean, float inv_std,
                          float shift, float slope, uint32_t count) {
    __asm__ volatile(ROW_LOOP(36,
                              PAIR(0, 4) PAIR(8, 12) ADDI("%[dy]", 16) ADDI("%[scale]", 16) ADDI("%[x]", 16)
                              ADDI("%[dx]", 16),
                              12,
                              FLW("fa0", "%[dy]", 0) FLW("fa2", "%[scale]", 0) FLW("ft0", "%[x]", 0)
                              SCALE("fa0", "fa2") ADDI("%[dy]", 4) CENTRE("ft0") ADDI("%[scale]", 4)
                              SLOPE("ft0", "fa0") ADDI("%[x]", 4) UNIT("ft0") FSW("ft0", "%[dx]", 0) ADDI("%[dx]", 4))
                     : [dy] "+&r"(dy), [scale] "+&r"(scale), [x] "+&r"(x), [dx] "+&r"(dx)
                     : [mean] "f"(mean), [inv_std] "f"(inv_std), [shift] "f"(shift), [slope] "f"(slope),
                       [turns] "r"(count >> 2), [rest] "r"(count & 3)
                     : "ft0", "ft1", "fa0", "fa1", "fa2", "fa3", "memory");
}

void layer_norm_grad_f32(const void *args) {
    const layer_norm_grad_f32_args_t *p = args;
    const share_t share = share_of(p->r * p->c);
    const float inverse = 1.0f / p->count;
    uint32_t r = share.begin / p->c, first = share.begin - r * p->c;
    for (uint32_t left = share.end - share.begin, run; left > 0; left -= run, first = 0, r++) {
        const float inv_std = p->inv_std[r], shift = p->total[r] * inverse, slope = inv_std * p->dot[r] * inverse;
        run = hal_min(left, p->c - first);
        row_of(p->dx + r * p->dx_r + first, p->dy + r * p->dy_r + first, p->x + r * p->x_r + first, p->scale + first,
               p->mean[r], inv_std, shift, slope, run);
    }
}
