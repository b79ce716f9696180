/* ${v.title}
 *
 * ${v.provenance}
 *
 * A library that predicts with this model. It allocates no memory and prints nothing. Its weights are constants; its only
 * state is the struct ${v.name}_t. Do not call it from interrupt handlers, nor for one struct from two threads at a time.
 *
% for _ in v.settable:
 * Some weights are in the struct, too, and may be replaced at any time: see ${v.name}_set_weight.
 *
% endfor
 * Fill the inputs, call ${v.name}_predict, read the outputs. A prediction may overwrite its inputs, and filling an input may
 * overwrite outputs: they share memory. */
#ifndef ${v.upper}_H_INCLUDED
#define ${v.upper}_H_INCLUDED

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ${v.upper}_MEMORY_WORDS ${v.words}u /* of 4 bytes: inputs, outputs and all values in between */
% for _ in v.settable:
#define ${v.upper}_WEIGHTS ${v.weights}u /* weights that set_weight replaces; all others are constants */
% endfor

/* Result of a call. */
typedef enum {
    ${v.upper}_OK = 0,
    ${v.upper}_ERROR_POINTER,  /* a pointer is null */
    ${v.upper}_ERROR_STRUCT,   /* ${v.name}_init has not prepared this struct */
    ${v.upper}_ERROR_MACHINE,  /* this machine, compiler or C library rounds differently; try -DHAL_OWN_FMA */
    ${v.upper}_ERROR_FLAGS,    /* a source is compiled with flags that change results, such as -ffast-math or -ffp-contract=fast */
% for _ in v.settable:
    ${v.upper}_ERROR_INDEX,    /* no weight has this index */
    ${v.upper}_ERROR_NAME,     /* no weight has this name */
    ${v.upper}_ERROR_SIZE,     /* wrong number of bytes */
% endfor
    ${v.upper}_ERROR_INPUT     /* an input that is used as an index is out of range */
} ${v.name}_status_t;

/* Memory of a model. The members are private. */
typedef struct {
    union {
        float f32[${v.upper}_MEMORY_WORDS];
        int32_t i32[${v.upper}_MEMORY_WORDS];
        uint32_t u32[${v.upper}_MEMORY_WORDS];
% for b in v.bytewise:
        ${b.element} ${b.member}[4u * ${v.upper}_MEMORY_WORDS];
% endfor
    } memory;
    uint32_t ready;
    ${v.name}_status_t last;
} ${v.name}_t;

/* Prepare a struct. Must be the first call. */
${v.name}_status_t ${v.name}_init(${v.name}_t *model);

/* Return the array to fill before each prediction: packed, last index fastest; null if the struct is not prepared. */
% for t in v.inputs:
#define ${v.upper}_INPUT_${t.upper}_SIZE ${t.count}u
${t.type} *${v.name}_input_${t.name}(${v.name}_t *model); /* ${t.label}${t.shape}${t.purpose}${t.meaning} */
% endfor
% for p in v.predictions:

/* Compute the model's outputs from its inputs${p.purpose}. */
${v.name}_status_t ${v.name}_${p.name}(${v.name}_t *model);

/* Return an output: valid until an input is filled or the next prediction. */
% for t in p.outputs:
#define ${v.upper}_${t.upper}_SIZE ${t.count}u
const ${t.type} *${v.name}_${t.name}(const ${v.name}_t *model); /* ${t.label}${t.shape} */
% endfor
% endfor

% for _ in v.settable:
/* A weight that may be replaced: its name in the model, shape, elements, and whether they are int32_t. */
<%include file="weight_calls.h.mako"/>
% endfor
/* Return the result of the last call for this struct; return a text for a result. */
${v.name}_status_t ${v.name}_last_error(const ${v.name}_t *model);
const char *${v.name}_status_text(${v.name}_status_t status);

#ifdef __cplusplus
}
#endif

#endif
