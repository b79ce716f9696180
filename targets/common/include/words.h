/* An element of four bytes as it is moved: with all its bits, as a load of a float may not keep them, and whatever type it was
 * written in, which a compiler may otherwise take for memory that a pointer to floats does not reach. What is stored so may be an argument,
 * as far as a compiler knows: a loop that is short has its arguments in variables. */
#ifndef WORDS_H
#define WORDS_H

#include <stdint.h>

typedef uint32_t __attribute__((may_alias)) word_t;

static inline word_t word_at(const void *x) {
    const word_t *from = x;
    return *from;
}

static inline void set_word(void *y, word_t value) {
    word_t *to = y;
    *to = value;
}

static inline void move_word(void *y, const void *x) {
    set_word(y, word_at(x));
}

#endif
