/* dX = (X - mean) slope + (dY factor + shift) with one of each per channel, then the gate by X, where it is Y of a
 * Relu; the portable kernel defines the order.
 *
 * Of one image each core takes whole channels where all get as many, which needs no division; else as many elements. */
#include "channel_norm_grad_f32.h"
#include "gate.h"
#include "hal.h"
#include "row_loop.h"
#include "share_f32.h"

#define SCALE(dy) "fmadd.s " dy ", " dy ", %[factor], %[shift]\n"
#define CENTRE(x) "fsub.s " x ", " x ", %[mean]\n"
#define SLOPE(x, dy) "fmadd.s " x ", " x ", %[slope], " dy "\n"

/* A part of a channel of an image; the pointers are left behind it. Two cores share an FPU, whose instructions take
 * turns with others. */
static inline __attribute__((always_inline)) void channel(const channel_norm_grad_f32_args_t *p, uint32_t c,
                                                          const float **dy, const float **x, float **dx,
                                                          uint32_t count) {
    const float factor = p->scale[c] * p->inv_std[c], each = factor * p->inverse_count;
    const float slope = -(each * p->inv_std[c] * p->dscale[c]);
    const float whole = p->rest ? __builtin_fmaf(p->rest[c], p->dscale[c], p->dbias[c]) : p->dbias[c];
    const float shift = -(each * whole), mean = p->mean[c];
    const uint32_t turns = count >> 2, rest = count & 3;
    __asm__ volatile(ROW_LOOP(27,
                              FLW("fa0", "%[dy]", 0) ADDI("%[dx]", 16) FLW("ft0", "%[x]", 0) SCALE("fa0")
                              FLW("fa1", "%[dy]", 4) CENTRE("ft0") FLW("ft1", "%[x]", 4) SLOPE("ft0", "fa0")
                              FLW("fa2", "%[dy]", 8) SCALE("fa1") FLW("ft2", "%[x]", 8) CENTRE("ft1")
                              FSW("ft0", "%[dx]", -16) SLOPE("ft1", "fa1") FLW("fa3", "%[dy]", 12) SCALE("fa2")
                              ADDI("%[dy]", 16) CENTRE("ft2") FSW("ft1", "%[dx]", -12) SLOPE("ft2", "fa2")
                              FLW("ft3", "%[x]", 12) SCALE("fa3") ADDI("%[x]", 16) CENTRE("ft3")
                              FSW("ft2", "%[dx]", -8) SLOPE("ft3", "fa3") FSW("ft3", "%[dx]", -4),
                              9,
                              FLW("fa0", "%[dy]", 0) FLW("ft0", "%[x]", 0) SCALE("fa0") CENTRE("ft0") ADDI("%[dy]", 4)
                              SLOPE("ft0", "fa0") ADDI("%[x]", 4) FSW("ft0", "%[dx]", 0) ADDI("%[dx]", 4))
                     : [dy] "+&r"(*dy), [x] "+&r"(*x), [dx] "+&r"(*dx)
                     : [mean] "f"(mean), [factor] "f"(factor), [shift] "f"(shift), [slope] "f"(slope),
                       [turns] "r"(turns), [rest] "r"(rest)
                     : "ft0", "ft1", "ft2", "ft3", "fa0", "fa1", "fa2", "fa3", "memory");
}

/* Any share; `gated` is a constant. */
static inline __attribute__((always_inline)) void share(const channel_norm_grad_f32_args_t *p, int gated) {
    const share_t own = share_of(p->n * p->c * p->s);
    const uint32_t row = own.begin / p->s;
    uint32_t first = own.begin - row * p->s, n = row < p->c ? 0 : row / p->c, c = row - n * p->c;
    for (uint32_t left = own.end - own.begin, run; left > 0; left -= run, first = 0) {
        const float *dy = p->dy + n * p->dy_n + c * p->dy_c + first, *x = p->x + n * p->x_n + c * p->x_c + first;
        float *dx = p->dx + n * p->dx_n + c * p->dx_c + first;
        run = hal_min(left, p->s - first);
        channel(p, c, &dy, &x, &dx, run);
        if (gated) gate_line(dx - run, dx - run, x - run, run);
        if (++c == p->c) c = 0, n++;
    }
}

static __attribute__((noinline)) void gated(const channel_norm_grad_f32_args_t *p) { share(p, 1); }
static __attribute__((noinline)) void elements(const channel_norm_grad_f32_args_t *p) { share(p, 0); }

void channel_norm_grad_f32(const void *args) {
    const channel_norm_grad_f32_args_t *p = args;
    if (p->gated) {
        gated(p);
        return;
    }
    const uint32_t id = hal_core_id(), cores = hal_core_count(), channels = p->c, length = p->s;
    if (p->n > 1 || ((channels | cores) & (cores - 1))) {
        elements(p);
        return;
    }
    const float *dy = p->dy + id * p->dy_c, *x = p->x + id * p->x_c;
    float *dx = p->dx + id * p->dx_c;
    for (uint32_t c = id; c < channels; c += cores) {
        channel(p, c, &dy, &x, &dx, length);
        dy += cores * p->dy_c - length, x += cores * p->x_c - length, dx += cores * p->dx_c - length;
    }
}
