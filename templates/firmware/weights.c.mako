/* ${v.provenance}
 *
 * Weights and states of the optimizer as a run begins with them, and constants, as the bits of their elements. */
#include "${v.name}_weights.h"
% for p in v.initial:
% for name in p.array:

/* ${p.title} */
static const uint32_t ${name}[] = {
% for line in p.lines:
    ${line}
% endfor
};
% endfor
% endfor
% for _ in v.holds_first:

const ${v.name}_initial_t ${v.name}_initial[] = {
% for p in v.initial:
    {${p.at}u, ${p.count}u, ${p.fill}u, ${p.words}}, /* ${p.title} */
% endfor
};
const uint32_t ${v.name}_initial_count = sizeof ${v.name}_initial / sizeof *${v.name}_initial;
% endfor
% for _ in v.holds_frozen:

const ${v.name}_frozen_t ${v.name}_frozen = {{
% for f in v.frozen:
    /* ${f.title} */
% for line in f.lines:
    ${line}
% endfor
% endfor
}};
% endfor
