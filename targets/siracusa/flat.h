/* Loops over flat operands with the cluster's hardware loops: four elements a turn, or eight, then the rest one by one.
 *
 * A turn loads all of one operand, then all of the other, computes, and stores. Cores whose shares begin in one bank
 * of L1 then follow each other a cycle apart, each in the bank next to that of the core before; interleaved, loads and
 * stores meet in banks. They go down, as the DMA goes up: one that went their way would follow them bank after bank. */
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
    FLW("ft3", "%[a]", 12) FLW("ft2", "%[a]", 8) FLW("ft1", "%[a]", 4) FLW("ft0", "%[a]", 0)                          \
    FLW("ft7", "%[b]", 12) FLW("ft6", "%[b]", 8) FLW("ft5", "%[b]", 4) FLW("ft4", "%[b]", 0) ADDI("%[a]", 16)         \
    OP("ft3", "ft7") OP("ft2", "ft6") OP("ft1", "ft5") OP("ft0", "ft4") ADDI("%[b]", 16)                              \
    FSW("ft3", "%[y]", 12) FSW("ft2", "%[y]", 8) FSW("ft1", "%[y]", 4) FSW("ft0", "%[y]", 0) ADDI("%[y]", 16)
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

#define FLAT_IN_PLACE_TURN(OP)                                                                                        \
    FLW("ft7", "%[y]", 28) FLW("ft6", "%[y]", 24) FLW("ft5", "%[y]", 20) FLW("ft4", "%[y]", 16)                       \
    FLW("ft3", "%[y]", 12) FLW("ft2", "%[y]", 8) FLW("ft1", "%[y]", 4) FLW("ft0", "%[y]", 0)                          \
    FLW("fa7", "%[b]", 28) FLW("fa6", "%[b]", 24) FLW("fa5", "%[b]", 20) FLW("fa4", "%[b]", 16)                       \
    FLW("fa3", "%[b]", 12) FLW("fa2", "%[b]", 8) FLW("fa1", "%[b]", 4) FLW("fa0", "%[b]", 0)                          \
    OP("ft7", "fa7") OP("ft6", "fa6") OP("ft5", "fa5") OP("ft4", "fa4")                                               \
    OP("ft3", "fa3") OP("ft2", "fa2") OP("ft1", "fa1") OP("ft0", "fa0")                                               \
    FSW("ft7", "%[y]", 28) FSW("ft6", "%[y]", 24) FSW("ft5", "%[y]", 20) FSW("ft4", "%[y]", 16)                       \
    FSW("ft3", "%[y]", 12) FSW("ft2", "%[y]", 8) FSW("ft1", "%[y]", 4) FSW("ft0", "%[y]", 0)                          \
    ADDI("%[b]", 32) ADDI("%[y]", 32)

/* y = OP(y, b) for `count` elements, as above, with one address less to move. */
#define FLAT_IN_PLACE(OP, length, y_, b_, count_, ...)                                                                \
    do {                                                                                                              \
        const float *flat_b = (b_);                                                                                   \
        float *flat_y = (y_);                                                                                         \
        const uint32_t flat_count = (count_);                                                                         \
        if (flat_count >= 8)                                                                                          \
            __asm__ volatile(LOOP("%[turns]", 26 + 8 * length) FLAT_IN_PLACE_TURN(OP) LOOP_END(26 + 8 * length)       \
                             : [y] "+&r"(flat_y), [b] "+&r"(flat_b)                                                   \
                             : [turns] "r"(flat_count >> 3), ##__VA_ARGS__                                            \
                             : FLAT_CLOBBERS, "fa0", "fa1", "fa2", "fa3", "fa4", "fa5", "fa6", "fa7");                \
        if (flat_count & 7)                                                                                           \
            __asm__ volatile(LOOP("%[turns]", 5 + length)                                                             \
                             FLW("ft0", "%[y]", 0) FLW("ft1", "%[b]", 0) ADDI("%[b]", 4) OP("ft0", "ft1")             \
                             FSW("ft0", "%[y]", 0) ADDI("%[y]", 4) LOOP_END(5 + length)                               \
                             : [y] "+&r"(flat_y), [b] "+&r"(flat_b)                                                   \
                             : [turns] "r"(flat_count & 7), ##__VA_ARGS__                                             \
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
