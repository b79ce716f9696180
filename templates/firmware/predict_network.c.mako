/* ${v.provenance}
 *
 * Steps are data: where operands lie, in words from the begin of a struct's memory, and sizes. */
#include "${v.name}.h"

#include <float.h>
#include <string.h>

#include "${v.name}_exact_flags.h"
#include "${v.name}_hal.h" /* before any code that computes */
#include "${v.name}_exact_f32.h"
#include "${v.name}_own.h"
#include "${v.name}_weights.h"
% for k in v.steps.kernels:
#include "${v.name}_${k.symbol}.h"
% endfor

<%include file="steps.c.mako"/>\

/* ---- checks ---- */
<%include file="checks.c.mako"/>\

/* ---- begin, predictions ---- */

${v.name}_status_t ${v.name}_init(${v.name}_t *model) {
    ${v.name}_exact_fault_t fault;
    if (!model) return ${v.upper}_ERROR_POINTER;
    memset(model, 0, sizeof *model);
    if (exact_lacking()) return ${v.name}_ended(model, ${v.upper}_ERROR_MACHINE);
    if (!flags_are_exact()) return ${v.name}_ended(model, ${v.upper}_ERROR_FLAGS); /* first, because it may be the cause if the next check fails */
    if (exact_fault(&fault)) return ${v.name}_ended(model, ${v.upper}_ERROR_MACHINE);
% for _ in v.holds_first:
    for (uint32_t i = 0; i < ${v.name}_initial_count; i++) {
        const ${v.name}_initial_t *part = &${v.name}_initial[i];
        for (uint32_t k = 0; k < part->count; k++)
            model->memory.u32[part->at + k] = part->words ? part->words[k] : part->fill;
    }
% endfor
    model->ready = READY;
    return ${v.name}_ended(model, ${v.upper}_OK);
}
% for t in v.inputs:

${t.type} *${v.name}_input_${t.name}(${v.name}_t *model) { return ${v.name}_usable(model) ? 0 : &model->memory.${t.member}[${t.home}]; }
% endfor
% for p in v.predictions:

${v.name}_status_t ${v.name}_${p.name}(${v.name}_t *model) {
    const ${v.name}_status_t status = ${v.name}_usable(model);
    if (status) return status;
% for _ in v.checked:
    if (!inputs_fit(model, ${p.bit}u)) return ${v.name}_ended(model, ${v.upper}_ERROR_INPUT);
% endfor
    ${p.name}_graph(model);
    return ${v.name}_ended(model, ${v.upper}_OK);
}
% for t in p.outputs:

const ${t.type} *${v.name}_${t.name}(const ${v.name}_t *model) { return ${v.name}_usable(model) ? 0 : &model->memory.${t.member}[${t.home}]; }
% endfor
% endfor

% for _ in v.settable:
/* ---- weights ---- */

<%include file="weight_calls.c.mako"/>
% endfor
/* ---- errors ---- */

${v.name}_status_t ${v.name}_last_error(const ${v.name}_t *model) {
    const ${v.name}_status_t status = ${v.name}_usable(model);
    return status ? status : model->last;
}

const char *${v.name}_status_text(${v.name}_status_t status) {
    switch (status) {
    case ${v.upper}_OK: return "okay";
    case ${v.upper}_ERROR_POINTER: return "a pointer is null";
    case ${v.upper}_ERROR_STRUCT: return "the struct is not prepared";
    case ${v.upper}_ERROR_MACHINE: return "this machine rounds in another way";
    case ${v.upper}_ERROR_FLAGS: return "a source is compiled with flags that change results, such as -ffast-math";
% for _ in v.settable:
    case ${v.upper}_ERROR_INDEX: return "no weight has this index";
    case ${v.upper}_ERROR_NAME: return "no weight has this name";
    case ${v.upper}_ERROR_SIZE: return "wrong number of bytes";
% endfor
    case ${v.upper}_ERROR_INPUT: return "an input value is out of range";
    }
    return "unknown";
}
