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
% for s in v.steps:

/* ${s.title} */
static void step_${f"{s.index:02d}"}(${s.parameter}) {
${getattr(self, s.form)(s)}\
}
% endfor

${v.function} {
% for line in v.preamble:
    ${line}
% endfor
% for s in v.steps:
    step_${f"{s.index:02d}"}(${s.argument});
% endfor
    hal_step(HAL_NO_STEP);
}
<%def name="lines(items, indent)">\
% for item in items:
${indent}${item}
% endfor
</%def>\
<%def name="once(s)">\
    hal_step(${s.index});
${lines(s.variables, "    ")}\
${lines(s.fetch, "    ")}\
${lines(s.arrive, "    ")}\
${lines(s.arguments, "    ")}\
    hal_parallel(${s.kernel}, &${s.table});
${lines(s.leave, "    ")}\
${lines(s.settle, "    ")}\
</%def>\
<%def name="single(s)">\
    hal_step(${s.index});
${lines(s.variables, "    ")}\
    for (uint32_t tile = 0; tile < ${s.tiles}; tile++) {
${lines(s.lengths, "        ")}\
${lines(s.fetch, "        ")}\
${lines(s.arrive, "        ")}\
${lines(s.arguments, "        ")}\
        hal_parallel(${s.kernel}, &${s.table});
${lines(s.leave, "        ")}\
${lines(s.settle, "        ")}\
${lines(s.advance, "        ")}\
    }
</%def>\
<%def name="double(s)">\
    hal_step(${s.index});
${lines(s.variables, "    ")}\
    for (uint32_t turn = 0; turn <= ${s.tiles}; turn++) {
        if (turn < ${s.tiles}) {
${lines(s.fetch_lengths, "            ")}\
${lines(s.fetch, "            ")}\
${lines(s.fetch_advance, "            ")}\
        }
        if (turn == 0) continue;
${lines(s.lengths, "        ")}\
${lines(s.arrive, "        ")}\
${lines(s.arguments, "        ")}\
        hal_parallel(${s.kernel}, &${s.table});
${lines(s.leave, "        ")}\
${lines(s.turn, "        ")}\
${lines(s.advance, "        ")}\
    }
${lines(s.finish, "    ")}\
</%def>\
<%def name="storing(s)">\
    hal_step(${s.index});
${lines(s.variables, "    ")}\
    for (uint32_t tile = 0; tile < ${s.tiles}; tile++) {
${lines(s.lengths, "        ")}\
${lines(s.arrive, "        ")}\
${lines(s.arguments, "        ")}\
        hal_parallel(${s.kernel}, &${s.table});
${lines(s.leave, "        ")}\
${lines(s.turn, "        ")}\
${lines(s.advance, "        ")}\
    }
${lines(s.finish, "    ")}\
</%def>\
