/* Hardware loops and post-increment accesses of the cluster's cores, for a compiler that does not know them: pieces of
 * text for inline assembly, one instruction each.
 *
 * A loop's body is `n` instructions of 32 bits in one asm statement, at least three, without a branch; it runs `count`
 * times, at least once. LOOP_END checks `n`. */
#ifndef PULP_H
#define PULP_H

#include <stdint.h>

#define PULP_TEXT(x) PULP_TEXT_(x)
#define PULP_TEXT_(x) #x

#define LOOP(count, n)                                                                                                \
    ".balign 4\n.option push\n.option norelax\n.option norvc\n"                                                       \
    "90: .insn i 0x7b, 4, x0, " count ", 2 * (" PULP_TEXT(n) ")\n"
#define LOOP_END(n)                                                                                                   \
    ".if . - 90b != 4 + 4 * (" PULP_TEXT(n) ")\n.error \"length of a hardware loop\"\n.endif\n.option pop\n"

/* The same around a loop that ends before this one does. */
#define LOOP_OUTER(count, n)                                                                                          \
    ".balign 4\n.option push\n.option norelax\n.option norvc\n"                                                       \
    "91: .insn i 0x7b, 4, x1, " count ", 2 * (" PULP_TEXT(n) ")\n"
#define LOOP_OUTER_END(n)                                                                                             \
    ".if . - 91b != 4 + 4 * (" PULP_TEXT(n) ")\n.error \"length of a hardware loop\"\n.endif\n.option pop\n"

/* Load or store a word, then move the address by some bytes. */
#define LW_NEXT(to, at, bytes) ".insn i 0x0b, 2, " to ", " at ", " PULP_TEXT(bytes) "\n"
#define SW_NEXT(from, at, bytes) ".insn s 0x2b, 2, " from ", " PULP_TEXT(bytes) "(" at ")\n"
/* The same by a register's bytes. */
#define LW_STEP(to, at, step) ".insn r 0x0b, 7, 0x10, " to ", " at ", " step "\n"
#define SW_STEP(from, at, step) ".insn r 0x2b, 6, 0, " step ", " at ", " from "\n"
/* Store half a word, then move the address by a register's bytes. */
#define SH_STEP(from, at, step) ".insn r 0x2b, 5, 0, " step ", " at ", " from "\n"
/* Load or store a byte, then move the address by some bytes. */
#define LBU_NEXT(to, at, bytes) ".insn i 0x0b, 4, " to ", " at ", " PULP_TEXT(bytes) "\n"
#define SB_NEXT(from, at, bytes) ".insn s 0x2b, 0, " from ", " PULP_TEXT(bytes) "(" at ")\n"
/* The smaller, the larger of two integers. */
#define MIN_UNSIGNED(to, a, b) ".insn r 0x33, 5, 2, " to ", " a ", " b "\n"
#define MIN(to, a, b) ".insn r 0x33, 4, 2, " to ", " a ", " b "\n"
#define MAX(to, a, b) ".insn r 0x33, 6, 2, " to ", " a ", " b "\n"
/* The place of the highest bit that is set. */
#define HIGHEST_BIT(to, from) ".insn r 0x33, 1, 8, " to ", " from ", x0\n"
#define MAX_UNSIGNED(to, a, b) ".insn r 0x33, 7, 2, " to ", " a ", " b "\n"

/* Products of four bytes each, added to a sum; four sums of bytes, the larger ones of four. */
#define SUM_PRODUCTS(sum, a, b) ".insn r 0x57, 1, 0x5c, " sum ", " a ", " b "\n"
#define ADD_BYTES(to, a, b) ".insn r 0x57, 1, 0, " to ", " a ", " b "\n"
#define MAX_BYTES(to, a, b) ".insn r 0x57, 1, 0x18, " to ", " a ", " b "\n"
/* Low and high half of a word by their last bytes; a word of the last halves of two; one of bytes of itself and of another. */
#define PACK_LOW(to, second, first) ".insn r 0x57, 1, 0x70, " to ", " second ", " first "\n"
#define PACK_HIGH(to, fourth, third) ".insn r 0x57, 1, 0x6c, " to ", " fourth ", " third "\n"
#define PACK_HALVES(to, high, low) ".insn r 0x57, 0, 0x68, " to ", " high ", " low "\n"
#define SHUFFLE(to, other, places) ".insn r 0x57, 1, 0x64, " to ", " other ", " places "\n"

/* One instruction each, on operands of the asm statement by name. */
#define FLW(to, at, offset) "flw " to ", " PULP_TEXT(offset) "(" at ")\n"
#define FSW(from, at, offset) "fsw " from ", " PULP_TEXT(offset) "(" at ")\n"
#define ADD(to, step) "add " to ", " to ", " step "\n"
#define ADDI(to, bytes) "addi " to ", " to ", " PULP_TEXT(bytes) "\n"
#define FMA(sum, a, b) "fmadd.s " sum ", " a ", " b ", " sum "\n"

/* Moves between the registers of floats and of integers; by a union the compiler would keep a value in one kind alone. */
static inline uint32_t bits_in_core(float x) {
    uint32_t bits;
    __asm__("fmv.x.w %0, %1" : "=r"(bits) : "f"(x));
    return bits;
}

static inline float float_in_fpu(uint32_t bits) {
    float x;
    __asm__("fmv.w.x %0, %1" : "=f"(x) : "r"(bits));
    return x;
}

/* A constant by way of an integer register: a load from L2 would take 15 cycles. */
#define LITERAL_F32(x) literal_f32(x)
static inline float literal_f32(float x) {
    const union {
        float value;
        uint32_t bits;
    } number = {x};
    return float_in_fpu(number.bits);
}

static inline const float *at(const float *base, uint32_t bytes) {
    return (const float *)((uintptr_t)base + bytes);
}

/* How many of the numbers 0, cores, 2 cores, .. are below `total`; a division takes 32 cycles. */
static inline uint32_t rounds_of(uint32_t total, uint32_t cores) {
    uint32_t shift;
    if (cores & (cores - 1)) return (total + cores - 1) / cores;
    __asm__(HIGHEST_BIT("%0", "%1") : "=r"(shift) : "r"(cores));
    return (total + cores - 1) >> shift;
}

#endif
