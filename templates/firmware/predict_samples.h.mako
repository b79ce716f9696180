/* Inputs of the example's prediction. */
#ifndef SAMPLES_H
#define SAMPLES_H

#include <stdint.h>
% for a in v.samples:

static const ${a.input.type} sample_of_${a.input.name}[${a.input.count}] = {
% for row in a.rows:
% for line in row:
    ${line}
% endfor
% endfor
};
% endfor

#endif
