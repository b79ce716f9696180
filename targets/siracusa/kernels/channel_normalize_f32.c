/* Y = (X - mean) factor + bias with one of each per channel, where bias has what the mean lacks; the portable kernel defines
 * the order.
 *
 * Of one image each core takes whole channels where all get as many, which needs no division; else as many elements. */
#include "channel_normalize_f32.h"
#include "hal.h"
#include "row_loop.h"
#include "share_f32.h"

#define CENTRE(x) "fsub.s " x ", " x ", %[mean]\n"
#define SCALE(x) "fmadd.s " x ", " x ", %[factor], %[bias]\n"
#define OPERANDS [x] "+&r"(*x), [y] "+&r"(*y)
#define CONSTANTS [mean] "f"(mean), [factor] "f"(factor), [bias] "f"(bias), [turns] "r"(turns), [rest] "r"(rest)

/* Relu is the larger of the bits and 0: a NaN that arithmetic makes has no sign here. */
#define RELU(x, bits) "fmv.x.w " bits ", " x "\n" MAX(bits, bits, "zero")

/* A part of a row; both leave x and y behind it. Two cores share an FPU, whose instructions take turns with
 * others. */
static inline void activate(const float **x, float **y, float mean, float factor, float bias, uint32_t count) {
    const uint32_t turns = count >> 2, rest = count & 3;
    __asm__ volatile(ROW_LOOP(25,
                              FLW("ft0", "%[x]", 0) FLW("ft1", "%[x]", 4) CENTRE("ft0") FLW("ft2", "%[x]", 8)
                              SCALE("ft0") FLW("ft3", "%[x]", 12) CENTRE("ft1") RELU("ft0", "t0") SCALE("ft1")
                              SW_NEXT("t0", "%[y]", 4) CENTRE("ft2") RELU("ft1", "t1") SCALE("ft2")
                              SW_NEXT("t1", "%[y]", 4) CENTRE("ft3") ADDI("%[x]", 16) SCALE("ft3") RELU("ft2", "t2")
                              SW_NEXT("t2", "%[y]", 4) RELU("ft3", "t3") SW_NEXT("t3", "%[y]", 4),
                              7,
                              FLW("ft0", "%[x]", 0) ADDI("%[x]", 4) CENTRE("ft0") SCALE("ft0") RELU("ft0", "t0")
                              SW_NEXT("t0", "%[y]", 4))
                     : OPERANDS : CONSTANTS : "t0", "t1", "t2", "t3", "ft0", "ft1", "ft2", "ft3", "memory");
}

static inline void normalize(const float **x, float **y, float mean, float factor, float bias, uint32_t count) {
    const uint32_t turns = count >> 2, rest = count & 3;
    __asm__ volatile(ROW_LOOP(18,
                              FLW("ft0", "%[x]", 0) ADDI("%[x]", 16) CENTRE("ft0") FLW("ft1", "%[x]", -12)
                              SCALE("ft0") FSW("ft0", "%[y]", 0) CENTRE("ft1") FLW("ft2", "%[x]", -8) SCALE("ft1")
                              FSW("ft1", "%[y]", 4) CENTRE("ft2") FLW("ft3", "%[x]", -4) SCALE("ft2")
                              FSW("ft2", "%[y]", 8) CENTRE("ft3") ADDI("%[y]", 16) SCALE("ft3") FSW("ft3", "%[y]", -4),
                              6,
                              FLW("ft0", "%[x]", 0) ADDI("%[x]", 4) CENTRE("ft0") SCALE("ft0") FSW("ft0", "%[y]", 0)
                              ADDI("%[y]", 4))
                     : OPERANDS : CONSTANTS : "ft0", "ft1", "ft2", "ft3", "memory");
}

static __attribute__((noinline)) void elements(const channel_normalize_f32_args_t *p) {
    const share_t share = share_of(p->n * p->c * p->s);
    const uint32_t row = share.begin / p->s;
    uint32_t first = share.begin - row * p->s, n = row < p->c ? 0 : row / p->c, c = row - n * p->c;
    for (uint32_t left = share.end - share.begin, run; left > 0; left -= run, first = 0) {
        const float *x = p->x + n * p->x_n + c * p->x_c + first;
        float *y = p->y + n * p->y_n + c * p->y_c + first;
        const float mean = p->mean[c], factor = p->inv_std[c] * p->scale[c];
        const float bias = p->rest ? __builtin_fmaf(p->rest[c], p->scale[c], p->bias[c]) : p->bias[c];
        run = hal_min(left, p->s - first);
        if (p->relu)
            activate(&x, &y, mean, factor, bias, run);
        else
            normalize(&x, &y, mean, factor, bias, run);
        if (++c == p->c) c = 0, n++;
    }
}

void channel_normalize_f32(const void *args) {
    const channel_normalize_f32_args_t *p = args;
    const uint32_t id = hal_core_id(), cores = hal_core_count(), length = p->s, relu = p->relu;
    if (p->n > 1 || ((p->c | cores) & (cores - 1))) {
        elements(p);
        return;
    }
    const float *x = p->x + id * p->x_c, *scale = p->scale + id, *bias = p->bias + id, *mean = p->mean + id;
    const float *inv_std = p->inv_std + id, *const end = p->inv_std + p->c, *rest = p->rest;
    if (rest) rest += id;
    float *y = p->y + id * p->y_c;
    const uint32_t x_gap = cores * p->x_c - length, y_gap = cores * p->y_c - length;
    for (; inv_std < end; inv_std += cores, scale += cores, mean += cores, bias += cores, x += x_gap, y += y_gap) {
        const float factor = *inv_std * *scale;
        float whole = *bias;
        if (rest) whole = __builtin_fmaf(*rest, *scale, whole), rest += cores;
        if (relu)
            activate(&x, &y, *mean, factor, whole, length);
        else
            normalize(&x, &y, *mean, factor, whole, length);
    }
}
