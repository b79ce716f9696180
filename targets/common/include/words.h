/* An element of four bytes as it is moved. A load of a float may not keep all bits of a NaN, and a compiler may assume that
 * what was written as an integer is not read as a float; words keep the bits and may alias any type. So a store of a word may
 * also change the kernel's arguments, as far as the compiler knows: short loops copy those that they use before they begin. */
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
