/* Functions in assembly that use all registers, on a struct that begins with room for them. While one runs, the stack pointer
 * stands at the struct, and the global and the thread pointer are saved with the rest: nothing interrupts the cluster's cores. */
#ifndef ALL_REGISTERS_H
#define ALL_REGISTERS_H

#include "pulp.h"

#define ALL_REGISTERS 16 /* words of the struct, the stack pointer's first */

#define EACH_REGISTER(DO)                                                                                              \
    DO("ra", 4) DO("s0", 8) DO("s1", 12) DO("s2", 16) DO("s3", 20) DO("s4", 24) DO("s5", 28) DO("s6", 32)              \
    DO("s7", 36) DO("s8", 40) DO("s9", 44) DO("s10", 48) DO("s11", 52) DO("gp", 56) DO("tp", 60)
#define SAVE(name, place) "sw " name ", " PULP_TEXT(place) "(a0)\n"
#define RESTORE(name, place) "lw " name ", " PULP_TEXT(place) "(sp)\n"

/* Text from a call with the struct in a0 to a return; a field's place is an operand of its name. */
#define ENTER SAVE("sp", 0) EACH_REGISTER(SAVE) "mv sp, a0\n"
#define LEAVE EACH_REGISTER(RESTORE) "lw sp, 0(sp)\n ret\n"
#define FIELD_OF(type, field) [field] "i"(__builtin_offsetof(type, field))

#endif
