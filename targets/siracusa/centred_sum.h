/* Sums of X - centre and of (X - centre)^2 over rows, in the order of sum_f32.h. Each function leaves x behind the elements;
 * `squared` is a constant. */
#ifndef CENTRED_SUM_H
#define CENTRED_SUM_H

#include "block_sum.h"
#include "row_loop.h"

#define CENTRED static inline __attribute__((always_inline))

#define CENTRE(x) "fsub.s " x ", " x ", %[centre]\n"
#define PLUS(x) "fadd.s %[sum], %[sum], " x "\n"
#define SQUARE(x) FMA("%[sum]", x, x)

/* Four elements, and one. */
#define TURN(OP)                                                                                                      \
    FLW("ft0", "%[x]", 0) FLW("ft1", "%[x]", 4) CENTRE("ft0") FLW("ft2", "%[x]", 8) OP("ft0") CENTRE("ft1")           \
    FLW("ft3", "%[x]", 12) OP("ft1") CENTRE("ft2") ADDI("%[x]", 16) OP("ft2") CENTRE("ft3") OP("ft3")
#define ONE(OP) FLW("ft0", "%[x]", 0) ADDI("%[x]", 4) CENTRE("ft0") OP("ft0")

#define PART(OP)                                                                                                      \
    __asm__ volatile(ROW_LOOP(13, TURN(OP), 4, ONE(OP))                                                               \
                     : [x] "+&r"(*x), [sum] "+&f"(sum)                                                                \
                     : [centre] "f"(centre), [turns] "r"(count >> 2), [rest] "r"(count & 3)                           \
                     : "ft0", "ft1", "ft2", "ft3", "memory")
#define BLOCKS(OP)                                                                                                    \
    __asm__ volatile(LOOP_OUTER("%[count]", 16) LOOP("%[turns]", 13) TURN(OP) LOOP_END(13)                            \
                     ADD_BLOCK("%[group]", "%[sum]") LOOP_OUTER_END(16)                                               \
                     : [x] "+&r"(*x), [sum] "+&f"(sum), [group] "+&f"(group)                                          \
                     : [centre] "f"(centre), [count] "r"(count), [turns] "r"(SUM_BLOCK >> 2)                          \
                     : "ft0", "ft1", "ft2", "ft3", "memory")

/* The open block with some elements more. */
CENTRED float centred_part(int squared, float sum, const float **x, float centre, uint32_t count) {
    if (squared)
        PART(SQUARE);
    else
        PART(PLUS);
    return sum;
}

/* The open group with at least one whole block more. */
CENTRED float centred_blocks(int squared, float group, const float **x, float centre, uint32_t count) {
    float sum = 0.0f;
    if (squared)
        BLOCKS(SQUARE);
    else
        BLOCKS(PLUS);
    return group;
}

/* A group of so many elements. */
CENTRED float centred_group(int squared, const float **x, float centre, uint32_t count) {
    const uint32_t whole = count >> BLOCK_SHIFT, rest = count & (SUM_BLOCK - 1);
    const float group = whole ? centred_blocks(squared, 0.0f, x, centre, whole) : 0.0f;
    return rest ? group + centred_part(squared, 0.0f, x, centre, rest) : group;
}

/* The sum of a row that is all of it. */
CENTRED float centred_row(int squared, const float **x, float centre, uint32_t left) {
    uint32_t count = hal_min(left, GROUP_LENGTH);
    total_t total = {centred_group(squared, x, centre, count), 0.0f};
    if (left == count) return total.high;
    while (left -= count) {
        count = hal_min(left, GROUP_LENGTH);
        total_add(&total, centred_group(squared, x, centre, count));
    }
    return total_value(&total);
}

/* The sum with a row more, or with its part from `position` on. */
CENTRED void centred_add(int squared, sum_t *sum, uint32_t size, const float **x, float centre, uint32_t position,
                         uint32_t left) {
    while (left > 0) {
        uint32_t count = sum_next(sum, size, position, left);
        const uint32_t whole = whole_blocks(size, position, left);
        if (whole) {
            sum->group = centred_blocks(squared, sum->group, x, centre, whole);
            count = whole << BLOCK_SHIFT;
        } else
            sum->block = centred_part(squared, sum->block, x, centre, count);
        position += count, left -= count;
    }
}

#endif
