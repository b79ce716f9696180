/* An element of four bytes as it is moved: with all its bits, as a load of a float may not keep them, and whatever type it was
 * written in, which a compiler may otherwise take for memory that a pointer to floats does not reach. */
#ifndef WORDS_H
#define WORDS_H

#include <stdint.h>

typedef uint32_t __attribute__((may_alias)) word_t;

static inline void move_word(void *y, const void *x) {
    word_t *to = y;
    const word_t *from = x;
    *to = *from;
}

#endif
