/* Lines of elements with the cluster's hardware loops; lines_f32.h says what they do. */
#ifndef LINES_H
#define LINES_H

#include "flat.h"

static inline void fill_line_f32(float *y, float value, uint32_t count) {
    if (count >= 4)
        __asm__ volatile(LOOP("%[turns]", 5) FSW("%[value]", "%[y]", 0) FSW("%[value]", "%[y]", 4)
                         FSW("%[value]", "%[y]", 8) FSW("%[value]", "%[y]", 12) ADDI("%[y]", 16) LOOP_END(5)
                         : [y] "+&r"(y) : [value] "f"(value), [turns] "r"(count >> 2) : "memory");
    for (count &= 3; count > 0; count--) *y++ = value;
}

static inline void copy_line_f32(float *y, const float *x, uint32_t step, uint32_t count) {
    const uint32_t next = 4 * step;
    if (step == 0) {
        fill_line_f32(y, *x, count); /* loads and stores here keep all bits */
        return;
    }
    if (step == 1 && count >= 4) {
        __asm__ volatile(LOOP("%[turns]", 8)
                         LW_NEXT("t0", "%[x]", 4) LW_NEXT("t1", "%[x]", 4) LW_NEXT("t2", "%[x]", 4) LW_NEXT("t3", "%[x]", 4)
                         SW_NEXT("t0", "%[y]", 4) SW_NEXT("t1", "%[y]", 4) SW_NEXT("t2", "%[y]", 4) SW_NEXT("t3", "%[y]", 4)
                         LOOP_END(8)
                         : [x] "+&r"(x), [y] "+&r"(y) : [turns] "r"(count >> 2) : "t0", "t1", "t2", "t3", "memory");
        count &= 3;
    }
    if (count >= 2)
        __asm__ volatile(LOOP("%[pairs]", 6)
                         "lw t0, 0(%[x])\n" ADD("%[x]", "%[next]") "lw t1, 0(%[x])\n" ADD("%[x]", "%[next]")
                         SW_NEXT("t0", "%[y]", 4) SW_NEXT("t1", "%[y]", 4) LOOP_END(6)
                         : [x] "+&r"(x), [y] "+&r"(y) : [pairs] "r"(count >> 1), [next] "r"(next) : "t0", "t1", "memory");
    if (count & 1) move_word(y, x);
}

/* Strips of eight columns, through all lines; then what is left of each line. */
static inline void fill_lines_f32(float *y, uint32_t y_next, float value, uint32_t lines, uint32_t count) {
    for (; lines > 0 && count >= 8; count -= 8, y += 8) {
        float *line = y;
        __asm__ volatile(LOOP("%[lines]", 9)
                         FSW("%[value]", "%[y]", 0) FSW("%[value]", "%[y]", 4) FSW("%[value]", "%[y]", 8)
                         FSW("%[value]", "%[y]", 12) FSW("%[value]", "%[y]", 16) FSW("%[value]", "%[y]", 20)
                         FSW("%[value]", "%[y]", 24) FSW("%[value]", "%[y]", 28) ADD("%[y]", "%[next]") LOOP_END(9)
                         : [y] "+&r"(line)
                         : [value] "f"(value), [lines] "r"(lines), [next] "r"(4 * y_next) : "memory");
    }
    for (; lines > 0 && count > 0; lines--, y += y_next) fill_line_f32(y, value, count);
}

#define LINES_PLUS(a, b) "fadd.s " a ", " a ", " b "\n"
#define LINES_SUMS(first, second)                                                                                     \
    FLW("fa0", "%[x]", first) FLW("fa1", "%[x]", second) FLW("fa2", "%[y]", first) FLW("fa3", "%[y]", second)         \
    LINES_PLUS("fa2", "fa0") LINES_PLUS("fa3", "fa1") FSW("fa2", "%[y]", first) FSW("fa3", "%[y]", second)
/* Eight by themselves, which a core often has of a line, need no loop. */
static inline void add_line_f32(float *y, const float *x, uint32_t count) {
    if (count == 8)
        __asm__ volatile(LINES_SUMS(0, 4) LINES_SUMS(8, 12) LINES_SUMS(16, 20) LINES_SUMS(24, 28)
                         : : [x] "r"(x), [y] "r"(y) : "fa0", "fa1", "fa2", "fa3", "memory");
    else
        FLAT_PAIRS(LINES_PLUS, 1, y, y, x, count);
}

static inline void copy_lines_f32(
    float *y, uint32_t y_next, const float *x, uint32_t x_next, uint32_t lines, uint32_t step, uint32_t count
) {
    if (step == 0 && count == 2) { /* as an image of twice the width has each pixel */
        __asm__ volatile(LOOP("%[lines]", 5)
                         "lw t0, 0(%[x])\n" ADD("%[x]", "%[from]") "sw t0, 0(%[y])\nsw t0, 4(%[y])\n" ADD("%[y]", "%[to]")
                         LOOP_END(5)
                         : [x] "+&r"(x), [y] "+&r"(y)
                         : [lines] "r"(lines), [from] "r"(4 * x_next), [to] "r"(4 * y_next) : "t0", "memory");
        return;
    }
    for (; lines > 0; lines--, y += y_next, x += x_next) copy_line_f32(y, x, step, count);
}

#endif
