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
        return &${v.name}_frozen.${a.member}[at - FROZEN];
    }
% endfor
    ${v.upper}_ASSERT(at == NOWHERE || at < ${v.upper}_MEMORY_WORDS);
    return at == NOWHERE ? 0 : &model->memory.${a.member}[at];
}
% endfor
% for k in v.steps.kernels:

typedef struct {
% for field, _ in k.places:
    uint32_t ${field};
% endfor
% for field, type in k.sizes:
    ${type} ${field};
% endfor
} ${v.name}_${k.symbol}_at_t;

static void ${k.symbol}_call(${v.name}_t *model, const ${v.name}_${k.symbol}_at_t *at${k.parameters}) {
    const ${v.name}_${k.symbol}_args_t args = {
% for field, address in k.places:
        .${field} = ${address}(model, at->${field}),
% endfor
% for field, _ in k.sizes:
        .${field} = at->${field},
% endfor
% for field, _ in k.given:
        .${field} = ${field},
% endfor
    };
    ${v.name}_${k.symbol}(&args);
}
% endfor
% for t in v.steps.tables:

/* ${t.title} */
static const ${v.name}_${t.kernel}_at_t ${t.name} = {
% for line in t.fields:
    ${line}
% endfor
};
% endfor
