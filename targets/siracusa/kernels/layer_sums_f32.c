/* Per row the sums of dY scale and of dY scale (X - mean), in the order of sum_f32.h; the portable kernel says how tiles go
 * together. */
#include "layer_sums_f32.h"
#include "hal.h"
#include "row_loop.h"
#include "share_f32.h"
#include "sum_f32.h"

#define SCALE(dy, scale) "fmul.s " dy ", " dy ", " scale "\n"
#define CENTRE(x) "fsub.s " x ", " x ", %[mean]\n"
#define ADD_TO(sum, x) "fadd.s " sum ", " sum ", " x "\n"
/* 14 instructions for two neighbours. */
#define PAIR(at, behind)                                                                                              \
    FLW("fa0", "%[dy]", at) FLW("fa2", "%[scale]", at) FLW("ft0", "%[x]", at) SCALE("fa0", "fa2")                     \
    FLW("fa1", "%[dy]", behind) CENTRE("ft0") FLW("fa3", "%[scale]", behind) ADD_TO("%[total]", "fa0")                \
    FLW("ft1", "%[x]", behind) SCALE("fa1", "fa3") FMA("%[dot]", "fa0", "ft0") CENTRE("ft1")                          \
    ADD_TO("%[total]", "fa1") FMA("%[dot]", "fa1", "ft1")

/* Both open blocks with some elements more. */
static inline void add_part(float *total, float *dot, const float *dy, const float *x, const float *scale, float mean,
                            uint32_t count) {
    __asm__ volatile(ROW_LOOP(31, PAIR(0, 4) PAIR(8, 12) ADDI("%[dy]", 16) ADDI("%[scale]", 16) ADDI("%[x]", 16),
                              10,
                              FLW("fa0", "%[dy]", 0) FLW("fa2", "%[scale]", 0) FLW("ft0", "%[x]", 0)
                              SCALE("fa0", "fa2") ADDI("%[dy]", 4) CENTRE("ft0") ADDI("%[scale]", 4)
                              ADD_TO("%[total]", "fa0") ADDI("%[x]", 4) FMA("%[dot]", "fa0", "ft0"))
                     : [dy] "+&r"(dy), [scale] "+&r"(scale), [x] "+&r"(x), [total] "+&f"(*total), [dot] "+&f"(*dot)
                     : [mean] "f"(mean), [turns] "r"(count >> 2), [rest] "r"(count & 3)
                     : "ft0", "ft1", "fa0", "fa1", "fa2", "fa3", "memory");
}

/* Rows of several blocks, or parts of rows. */
static __attribute__((noinline)) void any(const layer_sums_f32_args_t *p, share_t share) {
    const uint32_t size = sum_size(p->carry);
    for (uint32_t r = share.begin; r < share.end; r++) {
        const float *dy = p->dy + r * p->dy_r, *x = p->x + r * p->x_r;
        float *carry = p->carry ? p->carry + 2 * SUM_CARRIED * r : 0;
        sum_t total = sum_begin(p->first, size, p->total[r], carry);
        sum_t dot = sum_begin(p->first, size, p->dot[r], carry + SUM_CARRIED);
        for (uint32_t c = 0; c < p->c;) {
            const uint32_t count = sum_next(&total, size, p->start + c, p->c - c);
            sum_next(&dot, size, p->start + c, count);
            add_part(&total.block, &dot.block, dy + c, x + c, p->scale + c, p->mean[r], count);
            c += count;
        }
        if (p->last) {
            p->total[r] = sum_value(&total, size);
            p->dot[r] = sum_value(&dot, size) * p->inv_std[r];
            sum_end(size, carry);
            sum_end(size, carry + SUM_CARRIED);
        } else {
            p->total[r] = sum_wait(&total, size, p->start + p->c, carry);
            p->dot[r] = sum_wait(&dot, size, p->start + p->c, carry + SUM_CARRIED);
        }
    }
}

void layer_sums_f32(const void *args) {
    const layer_sums_f32_args_t *p = args;
    const share_t share = share_of(p->r);
    if (p->carry || !(p->first && p->last)) {
        any(p, share);
        return;
    }
    for (uint32_t r = share.begin; r < share.end; r++) {
        float total = 0.0f, dot = 0.0f;
        add_part(&total, &dot, p->dy + r * p->dy_r, p->x + r * p->x_r, p->scale, p->mean[r], p->c);
        p->total[r] = total;
        p->dot[r] = dot * p->inv_std[r];
    }
}
