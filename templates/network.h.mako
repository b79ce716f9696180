/* ${v.provenance} */
#ifndef NETWORK_H
#define NETWORK_H

#include "hal.h"

/* The levels; sizes are what the plan uses. */
% for array, bytes, size, base in v.memories:
#define ${bytes} ${size}u
extern uint8_t ${array}[];
#define ${base}(at) ((void *)(${array} + (at)))
% endfor

% for c in v.constants:
#define ${c.name} ${c.value} /* ${c.note} */
% endfor

% for f in v.functions:
${f}
% endfor

#endif
