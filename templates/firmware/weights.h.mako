/* What a struct's memory begins with. */
#ifndef ${v.upper}_WEIGHTS_H
#define ${v.upper}_WEIGHTS_H

#include <stdint.h>

/* `count` words from word `at` of the memory on: those of the array, or all the same. */
typedef struct {
    uint32_t at, count, fill;
    const uint32_t *words;
} ${v.name}_initial_t;

extern const ${v.name}_initial_t ${v.name}_initial[];
extern const uint32_t ${v.name}_initial_count;

#endif
