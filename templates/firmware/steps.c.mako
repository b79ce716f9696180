_Static_assert(sizeof(float) == 4 && FLT_RADIX == 2 && FLT_MANT_DIG == 24, "float is no IEEE 754 binary32");
_Static_assert(FLT_EVAL_METHOD == 0, "floats are computed in another precision");

% for _ in v.holds_frozen:
#define FROZEN ${v.frozen_at}u /* offsets from here on refer to constants */

% endfor
/* Places of tensors, in words. */
enum {
% for c in v.homes:
    ${c.name} = ${c.value}, /* ${c.note} */
% endfor
};

% for a in v.accessors:
static ${a.type} *${a.name}(${v.name}_t *model, uint32_t at) {
% for _ in a.reads:
    if (at >= FROZEN && at != NOWHERE) {
        ${v.upper}_ASSERT(at - FROZEN < ${v.upper}_FROZEN_WORDS);
        return &${v.name}_frozen.${a.member}[${a.among}];
    }
% endfor
    ${v.upper}_ASSERT(at == NOWHERE || at < ${v.upper}_MEMORY_WORDS);
    return at == NOWHERE ? 0 : &model->memory.${a.member}[${a.index}];
}
% endfor
% for k in v.steps.kernels:

% for _ in k.sized:
typedef struct {
% for field, type in k.sizes:
    ${type} ${field};
% endfor
} ${v.name}_${k.symbol}_sizes_t;

static const ${v.name}_${k.symbol}_sizes_t ${k.symbol}_sizes[] = {
% for row in k.rows:
    ${row}
% endfor
};

% endfor
typedef struct {
% for field, _ in k.places:
    uint32_t ${field};
% endfor
% for _ in k.sized:
    uint32_t sizes;
% endfor
} ${v.name}_${k.symbol}_at_t;

static void ${k.symbol}_call(${v.name}_t *model, const ${v.name}_${k.symbol}_at_t *at${k.parameters}) {
% for _ in k.sized:
    const ${v.name}_${k.symbol}_sizes_t *sizes = &${k.symbol}_sizes[at->sizes];
% endfor
    const ${v.name}_${k.symbol}_args_t args = {
% for field, address in k.places:
        .${field} = ${address}(model, at->${field}),
% endfor
% for field, _ in k.sizes:
        .${field} = sizes->${field},
% endfor
% for field, _ in k.given:
        .${field} = ${field},
% endfor
    };
    ${v.name}_${k.symbol}(&args);
    hal_join();
}
% endfor

/* A row STEP_02(26, ...) is that of step 26, with the places of its operands.
 *
% for row in v.steps.rows:
 * ${row}
% endfor
 */
% for text in v.steps.macros:
${text}
% endfor
% for t in v.steps.tables:
static const ${v.name}_${t.kernel}_at_t ${t.name}[${t.count}] = {
% for row in t.rows:
    ${row}
% endfor
};
% endfor

/* Of each step its call, by a number of the switch below, and the row of the kernel's table. */
static const struct {
    uint16_t call, row;
} steps[] = {
% for line in v.steps.places:
    ${line}
% endfor
};

static void run_step(${v.name}_t *model, uint32_t step) {
    const uint32_t row = steps[step].row;
% for name in v.steps.fresh:
    const uint32_t ${name} = model->passes == 0;
% endfor
    switch (steps[step].call) {
% for number, call in v.steps.calls:
    case ${number}: ${call} break;
% endfor
    default: ${v.upper}_ASSERT(0); break;
    }
}
% for g in v.steps.graphs:

static void ${g.name}(${v.name}_t *model) {
    for (uint32_t step = ${g.first}; step < ${g.first + g.count}; step++) run_step(model, step);
}
% endfor
