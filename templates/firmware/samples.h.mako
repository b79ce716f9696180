/* Samples of the case, and the sample of each pass. */
#ifndef SAMPLES_H
#define SAMPLES_H

#include <stdint.h>

#define SAMPLE_PASSES ${v.samples.passes}u

static const uint32_t pass_samples[SAMPLE_PASSES] = {
% for line in v.samples.order:
    ${line}
% endfor
};
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
