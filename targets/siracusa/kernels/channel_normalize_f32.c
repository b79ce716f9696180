/* Y = X factor + shift with one of each per channel; the portable kernel defines the order. */
#include "channel_normalize_f32.h"
#include "activation_f32.h"
#include "hal.h"
#include "pulp.h"
#include "share_f32.h"

#define SCALE(x) "fmadd.s " x ", " x ", %[factor], %[shift]\n"
#define OPERANDS [x] "+&r"(x), [y] "+&r"(y)
#define CONSTANTS [factor] "f"(factor), [shift] "f"(shift)
#define CLOBBERS "ft0", "ft1", "ft2", "ft3", "memory"

/* Relu as in relu_f32.c: the larger of the bits and 0, which is wrong for a NaN with its sign set alone. */
#define RELU_BITS(x, bits)                                                                                            \
    "fmv.x.w " bits ", " x "\n" MAX_UNSIGNED("%[largest]", "%[largest]", bits) MAX(bits, bits, "zero")
#define MINUS_INFINITY 0xff800000u

static inline void activate(const float *x, float *y, float factor, float shift, uint32_t count) {
    const float *from = x;
    float *to = y;
    uint32_t largest = 0;
    if (count >= 2)
        __asm__ volatile(LOOP("%[pairs]", 13)
                         FLW("ft0", "%[x]", 0) FLW("ft1", "%[x]", 4) SCALE("ft0") ADDI("%[x]", 8) SCALE("ft1")
                         RELU_BITS("ft0", "t0") SW_NEXT("t0", "%[y]", 4) RELU_BITS("ft1", "t1")
                         SW_NEXT("t1", "%[y]", 4)
                         LOOP_END(13)
                         : OPERANDS, [largest] "+&r"(largest)
                         : CONSTANTS, [pairs] "r"(count >> 1) : "t0", "t1", CLOBBERS);
    if (count & 1) *y = relu_f32_of(__builtin_fmaf(*x, factor, shift));
    if (largest <= MINUS_INFINITY) return;
    for (; count > 0; count--, from++, to++) *to = relu_f32_of(__builtin_fmaf(*from, factor, shift));
}

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
        const float shift = __builtin_fmaf(-p->mean[c], factor, p->bias[c]);
        const float *x = p->x + n * p->x_n + c * p->x_c + first;
        float *y = p->y + n * p->y_n + c * p->y_c + first;
        if (p->relu)
            activate(x, y, factor, shift, run);
        else
            normalize(x, y, factor, shift, run);
        if (++c == p->c) c = 0, n++;
    }
}
