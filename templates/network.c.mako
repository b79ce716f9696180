/* ${v.provenance}
 *
 * A double-buffered step fetches a tile (next_*) before it waits for the one before and computes that.
 * A row STEP_02(26, ...) of an array of arguments is that of step 26, with the places of its operands in bytes.
 *
% for row in v.rows:
 * ${row}
% endfor
 */
#include "Network.h"

% for kernel in v.kernels:
#include "${kernel}.h"
% endfor

% for function in v.variants:
void ${function}(const void *args);
% endfor
% for text in v.macros:
${text}
% endfor
% for t in v.tables:
static ${t.kernel}_args_t ${t.name}[${t.count}] HAL_TABLE = {
% for row in t.rows:
    ${row}
% endfor
};
% endfor
% for g in v.groups:

/* ${g.title} */
typedef struct {
% for t in g.tables:
    ${t.kernel}_args_t ${t.name}[${t.count}];
% endfor
} ${g.name}_t;
static const ${g.name}_t ${g.name} = {
% for t in g.tables:
    .${t.name} = {
% for row in t.rows:
        ${row}
% endfor
    },
% endfor
};
#define ${g.short} ((${g.name}_t *)TABLES)
% endfor

% for text in v.asserts:
_Static_assert(${text});
% endfor
% for f in v.functions:

/* ${f.title} */
static void ${f.name}(${f.parameters}) {
% for step in f.steps:
    hal_step(${step});
% endfor
${inside(f.body, "    ")}\
}
% endfor

% for note in v.notes:
/* ${note} */
% endfor
% for text in v.runs:
${text}
% endfor
% for _ in v.notes:

% endfor
${v.function} {
% for line in v.preamble:
    ${line}
% endfor
${inside(v.calls, "    ")}\
    hal_step(HAL_NO_STEP);
}
<%def name="inside(items, indent)">\
% for item in items:
${getattr(self, item.definition)(item, indent)}\
% endfor
</%def>\
<%def name="c_begin(v, indent)">\
${indent}hal_step(${v.step});
</%def>\
<%def name="c_run(v, indent)">\
${indent}${v.call}
</%def>\
<%def name="c_block(v, indent)">\
${inside(v.body, indent)}\
</%def>\
<%def name="c_declare(v, indent)">\
% for line in v.lines:
${indent}uint32_t ${line};
% endfor
</%def>\
<%def name="c_tickets(v, indent)">\
% for line in v.lines:
${indent}hal_ticket_t ${line};
% endfor
</%def>\
<%def name="c_arguments(v, indent)">\
${indent}${v.kernel}_args_t *args = ${v.table};
</%def>\
<%def name="c_fetch(v, indent)">\
${indent}hal_tables(TABLES, ${v.tables}, ${v.size});
</%def>\
<%def name="c_let(v, indent)">\
${indent}const uint32_t ${v.name} = ${v.value};
</%def>\
<%def name="c_set(v, indent)">\
${indent}${v.variable} = ${v.value};
</%def>\
<%def name="c_increase(v, indent)">\
${indent}${v.variable} += ${v.by};
</%def>\
<%def name="c_rotate_two(v, indent)">\
${indent}${v.variable} ^= 1;
</%def>\
<%def name="c_rotate(v, indent)">\
${indent}${v.variable} = ${v.variable} == ${v.last} ? 0 : ${v.variable} + 1;
</%def>\
<%def name="c_start_stmt(v, indent)">\
${indent}${v.ticket} = ${v.transfer};
</%def>\
<%def name="c_start_local(v, indent)">\
${indent}const hal_ticket_t ${v.ticket} = ${v.transfer};
</%def>\
<%def name="c_wait(v, indent)">\
${indent}hal_dma_wait(${v.awaited});
</%def>\
<%def name="c_wait_all(v, indent)">\
${indent}hal_dma_wait_all(${v.tickets}, ${v.count});
</%def>\
<%def name="c_assign_stmt(v, indent)">\
${indent}args->${v.argument} = ${v.value};
</%def>\
<%def name="c_call_stmt(v, indent)">\
${indent}hal_parallel(${v.function}, ${v.table});
</%def>\
<%def name="c_assign_each_stmt(v, indent)">\
${indent}for (${v.kernel}_args_t *args = ${v.table}; args < ${v.table} + ${v.count}; args++) {
${inside(v.body, indent + "    ")}\
${indent}}
</%def>\
<%def name="c_call_each_stmt(v, indent)">\
${indent}hal_parallel_steps(${v.step}, ${v.functions[0]}, ${v.table}, sizeof(${v.kernel}_args_t), ${v.count});
</%def>\
<%def name="c_call_each_own(v, indent)">\
${indent}const hal_kernel_t functions[] = {
% for line in v.lines:
${indent}    ${line}
% endfor
${indent}};
${indent}hal_parallel_each(${v.step}, functions, ${v.table}, sizeof(${v.kernel}_args_t), ${v.count});
</%def>\
<%def name="c_if_line(v, indent)">\
${indent}if (${v.condition}) ${inside(v.body, "")}\
</%def>\
<%def name="c_if_stmt(v, indent)">\
${indent}if (${v.condition}) {
${inside(v.body, indent + "    ")}\
${indent}}
</%def>\
<%def name="c_loop_stmt(v, indent)">\
${indent}for (uint32_t ${v.counter} = 0; ${v.counter} < ${v.count}; ${v.counter}++) {
${inside(v.body, indent + "    ")}\
${indent}}
</%def>\
<%def name="c_loop_ahead(v, indent)">\
${indent}for (uint32_t ${v.counter} = 0; ${v.counter} <= ${v.count}; ${v.counter}++) {
${indent}    if (${v.counter} < ${v.count}) {
${inside(v.ahead, indent + "        ")}\
${indent}    }
${indent}    if (${v.counter} == 0) continue;
${inside(v.body, indent + "    ")}\
${indent}}
</%def>\
