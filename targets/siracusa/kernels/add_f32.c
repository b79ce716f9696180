/* Y = A + B; then Relu, or the gradient of one, where it is fused. */
#include "add_f32.h"
#include "flat.h"

#define TEXT(a, b) "fadd.s " a ", " a ", " b "\n"
#define BINARY_UNIT_F32(f, y, a, b, count) FLAT_PAIRS(TEXT, 1, y, a, b, count)
#define BINARY_STRIDED_F32(f, ...) FLAT_STRIDED(f, TEXT, 1, __VA_ARGS__)
#include "add_epilogue_f32.h"
#include "binary_f32.h"

static inline float add(float a, float b) {
    return a + b;
}

BINARY_RUN_F32(add_f32, add)

/* A comparison's result as a mask of all bits, two neighbours a turn. */
static inline void relu(float *y, uint32_t count) {
    uint32_t first, second, mask;
    if (count & 1) *y = relu_f32_of(*y), y++;
    if (count >= 2)
        __asm__ volatile("fmv.w.x ft2, zero\n" LOOP("%[pairs]", 12)
                         FLW("ft0", "%[y]", 0) FLW("ft1", "%[y]", 4)
                         "lw %[first], 0(%[y])\n lw %[second], 4(%[y])\n"
                         "fle.s %[mask], ft0, ft2\n" ADDI("%[mask]", -1) "and %[first], %[first], %[mask]\n"
                         "fle.s %[mask], ft1, ft2\n" ADDI("%[mask]", -1) "and %[second], %[second], %[mask]\n"
                         SW_NEXT("%[first]", "%[y]", 4) SW_NEXT("%[second]", "%[y]", 4) LOOP_END(12)
                         : [y] "+&r"(y), [first] "=&r"(first), [second] "=&r"(second), [mask] "=&r"(mask)
                         : [pairs] "r"(count >> 1)
                         : "ft0", "ft1", "ft2", "memory");
}

static inline void gated(float *y, const float *gate, uint32_t count) {
    uint32_t first, second, mask;
    if (count & 1) *y = gated_f32(*y, *gate), y++, gate++;
    if (count >= 2)
        __asm__ volatile("fmv.w.x ft2, zero\n" LOOP("%[pairs]", 13)
                         FLW("ft0", "%[gate]", 0) FLW("ft1", "%[gate]", 4)
                         "lw %[first], 0(%[y])\n lw %[second], 4(%[y])\n"
                         "flt.s %[mask], ft2, ft0\n neg %[mask], %[mask]\n and %[first], %[first], %[mask]\n"
                         "flt.s %[mask], ft2, ft1\n neg %[mask], %[mask]\n and %[second], %[second], %[mask]\n"
                         SW_NEXT("%[first]", "%[y]", 4) ADDI("%[gate]", 8) SW_NEXT("%[second]", "%[y]", 4) LOOP_END(13)
                         : [y] "+&r"(y), [gate] "+&r"(gate), [first] "=&r"(first), [second] "=&r"(second),
                           [mask] "=&r"(mask)
                         : [pairs] "r"(count >> 1)
                         : "ft0", "ft1", "ft2", "memory");
}

void add_f32(const void *args) {
    const add_f32_args_t *p = args;
    add_f32_run(p);
    if (!p->relu && !p->gate) return;
    if (p->n0 * p->n1 * p->n2 != 1) {
        add_epilogue_f32(p);
        return;
    }
    const share_t share = share_of(p->n3);
    if (p->relu) relu(p->y + share.begin, share.end - share.begin);
    if (p->gate) gated(p->y + share.begin, p->gate + share.begin, share.end - share.begin);
}
