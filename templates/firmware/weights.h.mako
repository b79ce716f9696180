/* Initial contents of a struct's memory. */
#ifndef ${v.upper}_WEIGHTS_H
#define ${v.upper}_WEIGHTS_H

#include <stdint.h>

% for _ in v.holds_first:
/* `count` words, from word `at` of the memory: the array's, or all equal to `fill`. */
typedef struct {
    uint32_t at, count, fill;
    const uint32_t *words;
} ${v.name}_initial_t;

% endfor
% for _ in v.holds_frozen:
/* Frozen weights and other constants; training does not change them, and they are read in place. */
#define ${v.upper}_FROZEN_WORDS ${v.frozen_words}u
typedef union {
    uint32_t u32[${v.upper}_FROZEN_WORDS];
    float f32[${v.upper}_FROZEN_WORDS];
    int32_t i32[${v.upper}_FROZEN_WORDS];
% for b in v.bytewise:
    ${b.element} ${b.member}[4u * ${v.upper}_FROZEN_WORDS];
% endfor
} ${v.name}_frozen_t;

extern const ${v.name}_frozen_t ${v.name}_frozen;
% endfor
% for _ in v.holds_first:
extern const ${v.name}_initial_t ${v.name}_initial[];
extern const uint32_t ${v.name}_initial_count;
% endfor

#endif
