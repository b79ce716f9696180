/* Loops over flat operands with the cluster's hardware loops: four elements a turn, then the rest one by one. */
#ifndef FLAT_H
#define FLAT_H

#include "hal.h"
#include "pulp.h"
#include "share_f32.h"

/* Whether x is 2^n with an inverse that is not subnormal; then that. */
static inline int inverse_of_power(float x, float *inverse) {
    union {
        float value;
        uint32_t bits;
    } number = {x};
    if ((number.bits & 0x807fffffu) || number.bits == 0 || number.bits > 0x7e800000u) return 0;
    number.bits = 0x7f000000u - number.bits;
    *inverse = number.value;
    return 1;
}

#define FLAT_PAIRS_TURN(OP)                                                                                           \
    FLW("ft0", "%[a]", 0) FLW("ft1", "%[b]", 0) FLW("ft2", "%[a]", 4) FLW("ft3", "%[b]", 4) OP("ft0", "ft1")          \
    FLW("ft4", "%[a]", 8) FLW("ft5", "%[b]", 8) OP("ft2", "ft3") FSW("ft0", "%[y]", 0)                                \
    FLW("ft6", "%[a]", 12) FLW("ft7", "%[b]", 12) OP("ft4", "ft5") FSW("ft2", "%[y]", 4)                              \
    ADDI("%[a]", 16) ADDI("%[b]", 16) OP("ft6", "ft7") FSW("ft4", "%[y]", 8) FSW("ft6", "%[y]", 12) ADDI("%[y]", 16)
#define FLAT_PAIR(OP)                                                                                                 \
    FLW("ft0", "%[a]", 0) FLW("ft1", "%[b]", 0) ADDI("%[a]", 4) OP("ft0", "ft1") ADDI("%[b]", 4)                      \
    FSW("ft0", "%[y]", 0) ADDI("%[y]", 4)
#define FLAT_CLOBBERS "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "memory"

/* y = OP(a, b) for `count` elements: OP(x, z) is the text of `length` instructions that leave the result in register x.
 * Further arguments are input operands that it names. */
#define FLAT_PAIRS(OP, length, y_, a_, b_, count_, ...)                                                               \
    do {                                                                                                              \
        const float *flat_a = (a_), *flat_b = (b_);                                                                   \
        float *flat_y = (y_);                                                                                         \
        const uint32_t flat_count = (count_);                                                                         \
        if (flat_count >= 4)                                                                                          \
            __asm__ volatile(LOOP("%[turns]", 15 + 4 * length) FLAT_PAIRS_TURN(OP) LOOP_END(15 + 4 * length)          \
                             : [a] "+&r"(flat_a), [b] "+&r"(flat_b), [y] "+&r"(flat_y)                                \
                             : [turns] "r"(flat_count >> 2), ##__VA_ARGS__                                            \
                             : FLAT_CLOBBERS);                                                                        \
        if (flat_count & 3)                                                                                           \
            __asm__ volatile(LOOP("%[turns]", 6 + length) FLAT_PAIR(OP) LOOP_END(6 + length)                          \
                             : [a] "+&r"(flat_a), [b] "+&r"(flat_b), [y] "+&r"(flat_y)                                \
                             : [turns] "r"(flat_count & 3), ##__VA_ARGS__                                             \
                             : FLAT_CLOBBERS);                                                                        \
    } while (0)

#define FLAT_SCALED_TURN(OP)                                                                                          \
    FLW("ft0", "%[a]", 0) FLW("ft1", "%[a]", 4) FLW("ft2", "%[a]", 8) FLW("ft3", "%[a]", 12)                          \
    OP("ft0", "%[b]") OP("ft1", "%[b]") OP("ft2", "%[b]") OP("ft3", "%[b]")                                           \
    FSW("ft0", "%[y]", 0) FSW("ft1", "%[y]", 4) ADDI("%[a]", 16)                                                      \
    FSW("ft2", "%[y]", 8) FSW("ft3", "%[y]", 12) ADDI("%[y]", 16)

/* y = OP(a, b) with one b for all. */
#define FLAT_SCALED(f, OP, y_, a_, b_, count_)                                                                        \
    do {                                                                                                              \
        const float *flat_a = (a_), flat_b = (b_);                                                                    \
        float *flat_y = (y_);                                                                                         \
        uint32_t flat_count = (count_);                                                                               \
        if (flat_count >= 4)                                                                                          \
            __asm__ volatile(LOOP("%[turns]", 14) FLAT_SCALED_TURN(OP) LOOP_END(14)                                   \
                             : [a] "+&r"(flat_a), [y] "+&r"(flat_y)                                                   \
                             : [b] "f"(flat_b), [turns] "r"(flat_count >> 2)                                          \
                             : "ft0", "ft1", "ft2", "ft3", "memory");                                                 \
        for (flat_count &= 3; flat_count > 0; flat_count--) *flat_y++ = f(*flat_a++, flat_b);                         \
    } while (0)

/* Elements that lie apart, or of which b is one for all; or a, of an OP whose operands may change places: `turns` is 1. */
#define FLAT_STRIDED(f, OP, turns, y, a, a_next, b, b_next, count)                                                    \
    if ((b_next) == 0 && (a_next) == 1)                                                                               \
        FLAT_SCALED(f, OP, y, a, *(b), count);                                                                        \
    else if ((turns) && (a_next) == 0 && (b_next) == 1)                                                               \
        FLAT_SCALED(f, OP, y, b, *(a), count);                                                                        \
    else                                                                                                              \
        for (uint32_t j = 0; j < (count); j++) (y)[j] = f((a)[j * (a_next)], (b)[j * (b_next)])

#endif
