/* Part of conv.h: Relu on outputs whose sums are complete, or the gradient of one. */
#ifndef CONV_EPILOGUE_H
#define CONV_EPILOGUE_H

/* A convolution has Relu behind it at most, its dX a gate. */
INLINE int has_epilogue(const conv_t *v) {
#if CONV_APART > 0
    return v->relu != 0;
#else
    return v->gate != 0;
#endif
}

#if CONV_APART < 0
/* The gate of an output where gates do not lie like outputs: one of them is a part of a plane, the other all of it. */
static __attribute__((noinline)) const float *gate_of(const conv_t *v, const float *y) {
    const float *gate = v->gate;
    uint32_t offset = (uint32_t)(y - v->y);
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t step = v->y_step[i];
        if (offset < step) continue;
        const uint32_t index = offset / step;
        offset -= index * step, gate += index * v->gate_step[i];
    }
    return gate + offset;
}

/* How far apart the gates of outputs are that lie `step` apart. */
INLINE uint32_t gate_step_of(const conv_t *v, const float *y, uint32_t step) {
    return OFTEN(v->gate_alike) ? step : (uint32_t)(gate_of(v, y + step) - gate_of(v, y));
}

INLINE uint32_t gate_step_of_channels(const conv_t *v) { return v->gate_m; }
#else
INLINE uint32_t gate_step_of(const conv_t *v, const float *y, uint32_t step) { return (void)v, (void)y, step; }

INLINE uint32_t gate_step_of_channels(const conv_t *v) { return (void)v, 0; }
#endif

/* `count` outputs of one axis, a step apart, whose gates are `gate_step` apart: a comparison's result made a mask of all
 * bits. Stacks are short: this needs none. */
static __attribute__((noinline)) void epilogue_line(const conv_t *v, float *y, uint32_t count, uint32_t step,
                                                  uint32_t gate_step) {
    uint32_t value, mask;
#if CONV_APART > 0
    (void)v, (void)gate_step;
    __asm__ volatile("fmv.w.x ft1, zero\n" LOOP("%[count]", 7)
                     FLW("ft0", "%[y]", 0) "lw %[value], 0(%[y])\n fle.s %[mask], ft0, ft1\n"
                     ADDI("%[mask]", -1) "and %[value], %[value], %[mask]\n sw %[value], 0(%[y])\n"
                     ADD("%[y]", "%[step]") LOOP_END(7)
                     : [y] "+&r"(y), [value] "=&r"(value), [mask] "=&r"(mask)
                     : [step] "r"(4 * step), [count] "r"(count)
                     : "ft0", "ft1", "memory");
#else
    const float *gate = OFTEN(v->gate_alike) ? v->gate + (y - v->y) : gate_of(v, y);
    __asm__ volatile("fmv.w.x ft1, zero\n" LOOP("%[count]", 8)
                     FLW("ft0", "%[gate]", 0) "lw %[value], 0(%[y])\n flt.s %[mask], ft1, ft0\n"
                     ADD("%[gate]", "%[gate_step]") "neg %[mask], %[mask]\n and %[value], %[value], %[mask]\n"
                     "sw %[value], 0(%[y])\n" ADD("%[y]", "%[step]") LOOP_END(8)
                     : [y] "+&r"(y), [gate] "+&r"(gate), [value] "=&r"(value), [mask] "=&r"(mask)
                     : [step] "r"(4 * step), [gate_step] "r"(4 * gate_step), [count] "r"(count)
                     : "ft0", "ft1", "memory");
#endif
}

/* `count` outputs of a row; the same of as many channels. */
INLINE void epilogue_row(const conv_t *v, float *y, uint32_t count, uint32_t step) {
    epilogue_line(v, y, count, step, step);
}

INLINE void epilogue_channels(const conv_t *v, float *y, uint32_t count) {
    epilogue_line(v, y, count, v->y_m, gate_step_of_channels(v));
}

#endif
