/* Hardware loops and post-increment accesses of the cluster's cores, for a compiler that does not know them: pieces of
 * text for inline assembly, one instruction each.
 *
 * A loop's body is `n` instructions of 32 bits in one asm statement, at least three, without a branch; it runs `count`
 * times, at least once. LOOP_END checks `n`. Loop 0 lies inside of loop 1. */
#ifndef PULP_H
#define PULP_H

#define PULP_TEXT(x) PULP_TEXT_(x)
#define PULP_TEXT_(x) #x

#define LOOP_(level, label, count, n)                                                                                 \
    ".balign 4\n.option push\n.option norelax\n.option norvc\n" PULP_TEXT(label) ": .insn i 0x7b, 4, x" #level ", "   \
    count ", 2 * (" PULP_TEXT(n) ")\n"
#define LOOP_END_(label, n)                                                                                           \
    ".if . - " PULP_TEXT(label) "b != 4 + 4 * (" PULP_TEXT(n) ")\n.error \"length of a hardware loop\"\n.endif\n"     \
    ".option pop\n"
#define LOOP(count, n) LOOP_(0, 90, count, n)
#define LOOP_END(n) LOOP_END_(90, n)
#define LOOP_OUTER(count, n) LOOP_(1, 91, count, n)
#define LOOP_OUTER_END(n) LOOP_END_(91, n)

/* lw to = [at], sw from = [at]; then at += step, a register or 12 bits. */
#define LW_STEP(to, at, step) ".insn r 0x0b, 7, 0x10, " to ", " at ", " step "\n"
#define SW_STEP(from, at, step) ".insn r 0x2b, 6, 0, " step ", " at ", " from "\n"
#define LW_NEXT(to, at, bytes) ".insn i 0x0b, 2, " to ", " at ", " bytes "\n"
/* The larger of two signed integers. */
#define MAX(to, a, b) ".insn r 0x33, 6, 2, " to ", " a ", " b "\n"

/* One instruction each, on operands of the asm statement by name. */
#define FLW(to, at, offset) "flw " to ", " PULP_TEXT(offset) "(" at ")\n"
#define FSW(from, at, offset) "fsw " from ", " PULP_TEXT(offset) "(" at ")\n"
#define ADD(to, step) "add " to ", " to ", " step "\n"
#define ADDI(to, bytes) "addi " to ", " to ", " PULP_TEXT(bytes) "\n"
#define FMA(sum, a, b) "fmadd.s " sum ", " a ", " b ", " sum "\n"

#endif
