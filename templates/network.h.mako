/* ${v.provenance} */
#ifndef NETWORK_H
#define NETWORK_H

#include "hal.h"

/* The levels; sizes are what the plan uses. */
% for name, size in v.memories:
#define ${name.upper()}_BYTES ${size}u
extern uint8_t ${name}[];
% endfor

% for c in v.constants:
#define ${c.name} ${c.value} /* ${c.note} */
% endfor

% for f in v.functions:
${f}
% endfor

#endif
