/* Samples of the case, one by one. */
#ifndef SAMPLES_H
#define SAMPLES_H

#include <stdint.h>

#define SAMPLE_PASSES ${v.samples.passes}u
% for _ in v.rated:

static const float update_rates[][${v.rates}] = {
% for line in v.samples.rates:
    ${line},
% endfor
};
% endfor
% for a in v.samples.arrays:

static const ${a.input.type} samples_of_${a.input.name}[${v.samples.count}][${a.input.count}] = {
% for row in a.rows:
    {
% for line in row:
        ${line}
% endfor
    },
% endfor
};
% endfor

#endif
