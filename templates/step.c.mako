/* ${v.provenance}
 *
 * One pass at a time for the process that loads this library: data goes in, results and state are read where they lie.
 */
#include "Network.h"

#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

const uint32_t hal_plan_cores = ${v.cores}; /* what the plan was made for */
% for name, count in v.numbers:

float ${name}[${count}];
% endfor

/* Integers come as int64: within the limits, or the number that a node ignores. */
typedef struct {
    int64_t least, most, ignored;
} limits_t;

static void *const tensors[] = {
% for name in v.tensors:
    ${name},
% endfor
};

/* The first number beyond the limits, or `count`. */
static inline uint32_t narrow(int32_t *place, const int64_t *source, uint32_t count, limits_t limits) {
    for (uint32_t i = 0; i < count; i++) {
        const int64_t value = source[i];
        if ((value < limits.least || value > limits.most) && value != limits.ignored) return i;
        place[i] = (int32_t)value;
    }
    return count;
}

/* Null where this machine computes as the kernels need, else the reason why not. */
EXPORTED const char *step_unfit(void) { return hal_unfit(); }

EXPORTED void *step_tensor(uint32_t index) { return tensors[index]; }

% for name, count in v.numbers:
EXPORTED float *step_numbers(void) { return ${name}; }

% endfor
/* 0, or the number of the data input, from 1 on, that holds an integer beyond its limits; no pass is made then. */
EXPORTED uint32_t step_pass(const void *const *data, uint32_t is_first, uint32_t updates, float *result) {
    (void)is_first, (void)updates;
% for x in v.floats:
    memcpy(${x.name}, data[${x.index}], ${x.bytes});
% endfor
% for x in v.integers:
    if (narrow((int32_t *)${x.name}, data[${x.index}], ${x.count}, (limits_t){${x.least}, ${x.most}, ${x.ignored}}) < ${x.count})
        return ${x.index} + 1;
% endfor
    ${v.run}
    *result = *(const float *)${v.result};
% for call in v.optimizer:
    if (updates) ${call}
% endfor
    return 0;
}
