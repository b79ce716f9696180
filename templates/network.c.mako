/* ${v.provenance}
 *
 * A double-buffered step fetches a tile (next_*) before it waits for the one before and computes that.
 *
% for row in v.rows:
 * ${row}
% endfor
 */
#include "Network.h"

% for kernel in v.kernels:
#include "${kernel}.h"
% endfor

% for text in v.macros:
${text}
% endfor
% for s in v.steps:
static ${s.kernel}_args_t ${s.table} HAL_TABLE = {
% for field in s.fields:
    ${field}
% endfor
};
% endfor

% for text in v.asserts:
_Static_assert(${text});
% endfor
% for f in v.functions:

/* ${f.title} */
static void ${f.name}(${f.parameters}) {
    hal_step(${f.step});
${getattr(self, f.loop.form)(f.loop, "    ")}\
}
% endfor

${v.function} {
% for line in v.preamble:
    ${line}
% endfor
% for call in v.calls:
    ${call}
% endfor
    hal_step(HAL_NO_STEP);
}
<%def name="lines(items, indent)">\
% for item in items:
${indent}${item}
% endfor
</%def>\
<%def name="call(v, indent)">\
${lines(v.arguments, indent)}\
${indent}hal_parallel(${v.kernel}, ${v.table});
</%def>\
<%def name="once(v, indent)">\
${lines(v.variables, indent)}\
${lines(v.fetch, indent)}\
${lines(v.arrive, indent)}\
${getattr(self, v.body.form)(v.body, indent)}\
${lines(v.leave, indent)}\
${lines(v.settle, indent)}\
</%def>\
<%def name="single(v, indent)">\
${lines(v.variables, indent)}\
${indent}for (uint32_t ${v.counter} = 0; ${v.counter} < ${v.tiles}; ${v.counter}++) {
${lines(v.lengths, indent + "    ")}\
${lines(v.fetch, indent + "    ")}\
${lines(v.arrive, indent + "    ")}\
${getattr(self, v.body.form)(v.body, indent + "    ")}\
${lines(v.leave, indent + "    ")}\
${lines(v.settle, indent + "    ")}\
${lines(v.advance, indent + "    ")}\
${indent}}
</%def>\
<%def name="double(v, indent)">\
${lines(v.variables, indent)}\
${indent}for (uint32_t ${v.counter} = 0; ${v.counter} <= ${v.tiles}; ${v.counter}++) {
${indent}    if (${v.counter} < ${v.tiles}) {
${lines(v.fetch_lengths, indent + "        ")}\
${lines(v.fetch, indent + "        ")}\
${lines(v.fetch_advance, indent + "        ")}\
${indent}    }
${indent}    if (${v.counter} == 0) continue;
${lines(v.lengths, indent + "    ")}\
${lines(v.arrive, indent + "    ")}\
${getattr(self, v.body.form)(v.body, indent + "    ")}\
${lines(v.leave, indent + "    ")}\
${lines(v.turn, indent + "    ")}\
${lines(v.advance, indent + "    ")}\
${indent}}
${lines(v.finish, indent)}\
</%def>\
<%def name="storing(v, indent)">\
${lines(v.variables, indent)}\
${indent}for (uint32_t ${v.counter} = 0; ${v.counter} < ${v.tiles}; ${v.counter}++) {
${lines(v.lengths, indent + "    ")}\
${lines(v.arrive, indent + "    ")}\
${getattr(self, v.body.form)(v.body, indent + "    ")}\
${lines(v.leave, indent + "    ")}\
${lines(v.turn, indent + "    ")}\
${lines(v.advance, indent + "    ")}\
${indent}}
${lines(v.finish, indent)}\
</%def>\
