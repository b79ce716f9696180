/* Y = (X - mean) inv_std scale + bias, with mean and inv_std of a row, scale and bias of a column; bias may be absent. */
#include "layer_normalize_f32.h"
#include "hal.h"
#include "row_loop.h"
#include "share_f32.h"

#define CENTRE(x) "fsub.s " x ", " x ", %[mean]\n"
#define UNIT(x) "fmul.s " x ", " x ", %[inv_std]\n"
#define SCALE(x, scale, bias) "fmadd.s " x ", " x ", " scale ", " bias "\n"
/* 14 instructions for two neighbours. */
#define PAIR(x, at, z, behind)                                                                                        \
    FLW(x, "%[x]", at) FLW(z, "%[x]", behind) CENTRE(x) CENTRE(z) FLW("fa0", "%[scale]", at) FLW("fa1", "%[bias]", at) \
    UNIT(x) UNIT(z) FLW("fa2", "%[scale]", behind) FLW("fa3", "%[bias]", behind) SCALE(x, "fa0", "fa1")               \
    SCALE(z, "fa2", "fa3") FSW(x, "%[y]", at) FSW(z, "%[y]", behind)

static inline void biased(float *y, const float *x, const float *scale, const float *bias, float mean, float inv_std,
                          uint32_t count) {
    __asm__ volatile(ROW_LOOP(32,
                              PAIR("ft0", 0, "ft1", 4) PAIR("ft2", 8, "ft3", 12) ADDI("%[x]", 16) ADDI("%[scale]", 16)
                              ADDI("%[bias]", 16) ADDI("%[y]", 16),
                              11,
                              FLW("ft0", "%[x]", 0) FLW("fa0", "%[scale]", 0) CENTRE("ft0") FLW("fa1", "%[bias]", 0)
                              UNIT("ft0") ADDI("%[x]", 4) SCALE("ft0", "fa0", "fa1") ADDI("%[scale]", 4)
                              FSW("ft0", "%[y]", 0) ADDI("%[bias]", 4) ADDI("%[y]", 4))
                     : [x] "+&r"(x), [scale] "+&r"(scale), [bias] "+&r"(bias), [y] "+&r"(y)
                     : [mean] "f"(mean), [inv_std] "f"(inv_std), [turns] "r"(count >> 2), [rest] "r"(count & 3)
                     : "ft0", "ft1", "ft2", "ft3", "fa0", "fa1", "fa2", "fa3", "memory");
}

static __attribute__((noinline)) void unbiased(float *y, const float *x, const float *scale, float mean, float inv_std,
                                               uint32_t count) {
    for (; count > 0; count--) *y++ = (*x++ - mean) * inv_std * *scale++;
}

void layer_normalize_f32(const void *args) {
    const layer_normalize_f32_args_t *p = args;
    const share_t share = share_of(p->r * p->c);
    uint32_t r = share.begin / p->c, first = share.begin - r * p->c;
    for (uint32_t left = share.end - share.begin, run; left > 0; left -= run, first = 0, r++) {
        const float *x = p->x + r * p->x_r + first;
        float *y = p->y + r * p->y_r + first;
        run = hal_min(left, p->c - first);
        if (p->bias)
            biased(y, x, p->scale + first, p->bias + first, p->mean[r], p->inv_std[r], run);
        else
            unbiased(y, x, p->scale + first, p->mean[r], p->inv_std[r], run);
    }
}
