/* The loop over a row of elements as text for inline assembly: %[turns] times the instructions `turn`, then %[rest] times
 * `one` for what is left. The second loop lies behind the kernel: where nothing is left it is neither fetched nor jumped
 * over. */
#ifndef ROW_LOOP_H
#define ROW_LOOP_H

#include "pulp.h"

#define ROW_LOOP(turn_length, turn, one_length, one)                                                                  \
    "beqz %[turns], 1f\n" LOOP("%[turns]", turn_length) turn LOOP_END(turn_length)                                    \
    "1: bnez %[rest], 3f\n2:\n"                                                                                       \
    ".subsection 1\n3:\n" LOOP("%[rest]", one_length) one LOOP_END(one_length) "j 2b\n.previous\n"

#endif
