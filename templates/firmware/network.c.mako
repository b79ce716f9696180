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

/* Cycles that count against a budget: from a counter of the program, or as predicted for each step on one core of
 * ${v.costs}. */
#ifdef HAL_CYCLES
uint32_t HAL_CYCLES(void);
#else
static const uint32_t step_cycles[${v.upper}_STEPS] = {
% for line in v.cycles:
    ${line}
% endfor
};
#endif

/* ---- checks ---- */

static int is_finite(float value) { return value - value == 0.0f; }
<%include file="checks.c.mako"/>\

/* ---- begin, passes, updates ---- */

${v.name}_status_t ${v.name}_init(${v.name}_t *model) {
    ${v.name}_exact_fault_t fault;
    if (!model) return ${v.upper}_ERROR_POINTER;
    memset(model, 0, sizeof *model);
    if (exact_lacking()) return ${v.name}_ended(model, ${v.upper}_ERROR_MACHINE);
    if (!flags_are_exact()) return ${v.name}_ended(model, ${v.upper}_ERROR_FLAGS); /* first, because it may be the cause if the next check fails */
    if (exact_fault(&fault)) return ${v.name}_ended(model, ${v.upper}_ERROR_MACHINE);
    for (uint32_t i = 0; i < ${v.name}_initial_count; i++) {
        const ${v.name}_initial_t *part = &${v.name}_initial[i];
        for (uint32_t k = 0; k < part->count; k++)
            model->memory.u32[part->at + k] = part->words ? part->words[k] : part->fill;
    }
    model->ready = READY;
% for r in v.rate_views:
    (void)${v.name}_set_learning_rate(model, ${r.group}u, ${r.rate});
% endfor
    return ${v.name}_ended(model, ${v.upper}_OK);
}
% for t in v.inputs:

${t.type} *${v.name}_input_${t.name}(${v.name}_t *model) { return ${v.name}_usable(model) ? 0 : &model->memory.${t.member}[${t.home}]; }
% endfor

${v.name}_status_t ${v.name}_train_step(${v.name}_t *model, float *loss) {
    const ${v.name}_status_t status = ${v.name}_train_step_begin(model);
    if (status) return status;
    ${v.name}_status_t done = ${v.upper}_MORE;
    while (done == ${v.upper}_MORE) done = ${v.name}_train_step_continue(model, UINT32_MAX, loss);
    return done;
}

${v.name}_status_t ${v.name}_train_step_begin(${v.name}_t *model) {
    const ${v.name}_status_t status = ${v.name}_idle(model);
    if (status) return status;
    if (model->passes & SPOILT) return ${v.name}_ended(model, ${v.upper}_ERROR_LOSS);
    if (model->passes >= ${v.upper}_ACCUMULATE) return ${v.name}_ended(model, ${v.upper}_ERROR_DUE);
% for _ in v.checked:
    if (!inputs_fit(model, 1u)) return ${v.name}_ended(model, ${v.upper}_ERROR_INPUT);
% endfor
    model->step = 1;
    return ${v.name}_ended(model, ${v.upper}_OK);
}

/* The end of a pass whose steps have all run. */
static ${v.name}_status_t pass_ended(${v.name}_t *model, float *loss) {
    model->step = 0;
    model->passes++;
    const float value = model->memory.f32[${v.loss}];
    if (loss) *loss = value;
    if (is_finite(value)) return ${v.name}_ended(model, ${v.upper}_OK);
    model->passes |= SPOILT;
    return ${v.name}_ended(model, ${v.upper}_ERROR_LOSS);
}

${v.name}_status_t ${v.name}_train_step_continue(${v.name}_t *model, uint32_t budget_cycles, float *loss) {
    const ${v.name}_status_t status = ${v.name}_usable(model);
    if (status) return status;
    if (model->step == 0) return ${v.name}_ended(model, ${v.upper}_ERROR_EARLY);
#ifdef HAL_CYCLES
    const uint32_t begin = HAL_CYCLES();
#endif
    uint32_t spent = 0;
    do {
        run_step(model, model->step - 1u);
#ifdef HAL_CYCLES
        spent = HAL_CYCLES() - begin;
#else
        const uint32_t more = step_cycles[model->step - 1u];
        spent = more > UINT32_MAX - spent ? UINT32_MAX : spent + more;
#endif
        model->step++;
    } while (model->step <= ${v.upper}_STEPS && spent < budget_cycles);
    if (model->step <= ${v.upper}_STEPS) return ${v.name}_ended(model, ${v.upper}_MORE);
    return pass_ended(model, loss);
}

/* Whether the passes so far may make an update. */
static ${v.name}_status_t update_allowed(${v.name}_t *model) {
    const ${v.name}_status_t status = ${v.name}_idle(model);
    if (status) return status;
    if (model->passes == 0) return ${v.name}_ended(model, ${v.upper}_ERROR_EARLY);
    if (model->passes & SPOILT) return ${v.name}_ended(model, ${v.upper}_ERROR_LOSS);
    return ${v.name}_ended(model, ${v.upper}_OK);
}

${v.name}_status_t ${v.name}_update(${v.name}_t *model) {
    const ${v.name}_status_t status = update_allowed(model);
    if (status) return status;
    optimizer_graph(model);
    model->passes = 0;
    return ${v.upper}_OK;
}

${v.name}_status_t ${v.name}_drop_passes(${v.name}_t *model) {
    const ${v.name}_status_t status = ${v.name}_usable(model);
    if (status) return status;
    model->passes = 0;
    model->step = 0;
    return ${v.name}_ended(model, ${v.upper}_OK);
}

${v.name}_status_t ${v.name}_set_learning_rate(${v.name}_t *model, uint32_t group, float rate) {
    const ${v.name}_status_t status = ${v.name}_usable(model);
    if (status) return status;
    if (!is_finite(rate)) return ${v.name}_ended(model, ${v.upper}_ERROR_RATE);
    switch (group) {
% for r in v.rate_views:
    case ${r.group}u:
% for line in r.lines:
        ${line}
% endfor
        return ${v.name}_ended(model, ${v.upper}_OK);
% endfor
    default: return ${v.name}_ended(model, ${v.upper}_ERROR_INDEX);
    }
}
% for p in v.predictions:

${v.name}_status_t ${v.name}_${p.name}(${v.name}_t *model) {
    const ${v.name}_status_t status = ${v.name}_idle(model);
    if (status) return status;
% for _ in v.checked:
    if (!inputs_fit(model, ${p.bit}u)) return ${v.name}_ended(model, ${v.upper}_ERROR_INPUT);
% endfor
% for _ in v.after_update:
    if (model->passes && !(model->passes & SPOILT)) return ${v.name}_ended(model, ${v.upper}_ERROR_DUE);
% endfor
    ${p.name}_graph(model);
    return ${v.name}_ended(model, ${v.upper}_OK);
}
% for t in p.outputs:

const ${t.type} *${v.name}_${t.name}(const ${v.name}_t *model) { return ${v.name}_usable(model) ? 0 : &model->memory.${t.member}[${t.home}]; }
% endfor
% endfor

% for r in v.replay:
/* ---- features ---- */

${v.name}_status_t ${v.name}_features(${v.name}_t *model, ${r.parameters}, ${r.latent_type} *latent) {
    const ${v.name}_status_t status = ${v.name}_idle(model);
    if (status) return status;
    if (!latent) return ${v.name}_ended(model, ${v.upper}_ERROR_POINTER);
% for t in r.inputs:
    if (!input_${t.name}) return ${v.name}_ended(model, ${v.upper}_ERROR_POINTER);
    if (input_${t.name} != &model->memory.${t.member}[${t.home}])
        memcpy(&model->memory.${t.member}[${t.home}], input_${t.name}, ${v.upper}_INPUT_${t.upper}_SIZE * sizeof *input_${t.name});
% endfor
% for _ in v.checked:
    if (!inputs_fit(model, ${r.features_bit}u)) return ${v.name}_ended(model, ${v.upper}_ERROR_INPUT);
% endfor
    features_graph(model);
    memcpy(latent, &model->memory.${r.latent.member}[${r.latent.home}], ${r.latent_bytes}u);
    return ${v.name}_ended(model, ${v.upper}_OK);
}

% endfor
/* ---- weights ---- */

<%include file="weight_calls.c.mako"/>
/* ---- errors ---- */

${v.name}_status_t ${v.name}_last_error(const ${v.name}_t *model) {
    const ${v.name}_status_t status = ${v.name}_usable(model);
    return status ? status : model->last;
}

const char *${v.name}_status_text(${v.name}_status_t status) {
    switch (status) {
    case ${v.upper}_OK: return "okay";
    case ${v.upper}_MORE: return "steps of the pass are left";
    case ${v.upper}_ERROR_POINTER: return "a pointer is null";
    case ${v.upper}_ERROR_STRUCT: return "the struct is not prepared";
    case ${v.upper}_ERROR_MACHINE: return "this machine rounds in another way";
    case ${v.upper}_ERROR_FLAGS: return "a source is compiled with flags that change results, such as -ffast-math";
    case ${v.upper}_ERROR_RUNNING: return "a training pass is under way";
    case ${v.upper}_ERROR_DUE: return "an update has to come first";
    case ${v.upper}_ERROR_EARLY: return "there is no training pass";
    case ${v.upper}_ERROR_INPUT: return "an input value is out of range, such as a bad label";
    case ${v.upper}_ERROR_LOSS: return "the loss is infinite or no number; its passes have to be dropped";
    case ${v.upper}_ERROR_INDEX: return "there is no such index";
    case ${v.upper}_ERROR_NAME: return "there is no such name";
    case ${v.upper}_ERROR_SIZE: return "the number of bytes does not fit";
    case ${v.upper}_ERROR_RATE: return "the learning rate is no finite number";
    case ${v.upper}_ERROR_FOREIGN: return "this is no state of this model";
    case ${v.upper}_ERROR_DAMAGED: return "the saved state is damaged";
    case ${v.upper}_ERROR_EMPTY: return "nothing was saved";
% for _ in v.replay:
    case ${v.upper}_ERROR_RECORDS: return "there is no record to replay";
% endfor
    case ${v.upper}_ERROR_FLASH: return "the flash is not as described, or does not keep what is written";
    }
    return "unknown";
}
