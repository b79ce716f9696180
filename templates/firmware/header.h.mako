/* ${v.title}
 *
 * ${v.provenance}
 *
 * A library that trains this model, and predicts with its current weights. It allocates no memory and prints nothing. Its
 * only state is the struct ${v.name}_t; a program may have any number of them. Do not call it from interrupt handlers, nor
 * for one struct from two threads at a time.
 *
 * Training pass: fill the inputs, call ${v.name}_train_step; after ${v.accumulate} of them call ${v.name}_update.
 * Prediction: fill the inputs except the target, call ${v.name}_predict, read ${v.name}_output. A prediction does not
% for _ in v.any_time:
 * change the training, and may come at any time.
% endfor
% for _ in v.after_update:
 * change the training. Between a pass and its update it is refused (_ERROR_DUE).
% endfor
 * Inputs may be filled at any time and keep their values. */
#ifndef ${v.upper}_H_INCLUDED
#define ${v.upper}_H_INCLUDED

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ${v.upper}_ACCUMULATE ${v.accumulate}u /* training passes per update */
#define ${v.upper}_MEMORY_WORDS ${v.words}u /* of 4 bytes: weights, optimizer state, gradients and all values in between */
#define ${v.upper}_NUMBERS ${v.numbers}u /* factors of an update that depend on learning rates */
#define ${v.upper}_WEIGHTS ${v.weights}u /* persistent tensors: weights, optimizer state, statistics of norms */
#define ${v.upper}_RATES ${v.rates}u /* learning rates: one per parameter group */

/* Result of a call. */
typedef enum {
    ${v.upper}_OK = 0,
    ${v.upper}_MORE,           /* not an error: steps of the pass are left */
    ${v.upper}_ERROR_POINTER,  /* a pointer is null */
    ${v.upper}_ERROR_STRUCT,   /* ${v.name}_init has not prepared this struct */
    ${v.upper}_ERROR_MACHINE,  /* this machine, compiler or C library rounds differently; try -DHAL_OWN_FMA */
    ${v.upper}_ERROR_FLAGS,    /* a source is compiled with flags that change results, such as -ffast-math or -ffp-contract=fast */
    ${v.upper}_ERROR_DUE,      /* an update must come first */
    ${v.upper}_ERROR_EARLY,    /* no training pass since the last update, or none was begun */
    ${v.upper}_ERROR_RUNNING,  /* a training pass was begun and must be finished first */
    ${v.upper}_ERROR_INPUT,    /* an input that is used as an index, such as a label, is out of range */
    ${v.upper}_ERROR_LOSS,     /* the loss is infinite or NaN; passes and updates are refused until drop_passes */
    ${v.upper}_ERROR_INDEX,    /* no weight, rate or kind of image has this index */
    ${v.upper}_ERROR_NAME,     /* no weight has this name */
    ${v.upper}_ERROR_SIZE,     /* wrong number of bytes */
    ${v.upper}_ERROR_RATE,     /* the learning rate is infinite or NaN */
    ${v.upper}_ERROR_FOREIGN,  /* not a state of this model */
    ${v.upper}_ERROR_DAMAGED,  /* bytes of the saved state were lost or changed */
    ${v.upper}_ERROR_EMPTY,    /* nothing was saved in this flash */
% for _ in v.replay:
    ${v.upper}_ERROR_RECORDS,  /* the ring of the latent replay is empty */
% endfor
    ${v.upper}_ERROR_FLASH     /* the description of the flash is wrong, a function failed, or bytes do not keep their values */
} ${v.name}_status_t;

/* Memory and state of a model in training. The members are private. */
typedef struct {
    union {
        float f32[${v.upper}_MEMORY_WORDS];
        int32_t i32[${v.upper}_MEMORY_WORDS];
        uint32_t u32[${v.upper}_MEMORY_WORDS];
% for b in v.bytewise:
        ${b.element} ${b.member}[4u * ${v.upper}_MEMORY_WORDS];
% endfor
    } memory;
    float numbers[${v.upper}_NUMBERS + 1u];
    uint32_t passes;
    uint32_t step;
    uint32_t ready;
    ${v.name}_status_t last;
} ${v.name}_t;

/* Prepare a struct: initial weights, and an optimizer without updates. Must be the first call. */
${v.name}_status_t ${v.name}_init(${v.name}_t *model);

/* Return the array to fill with samples: packed, last index fastest; null if the struct is not prepared. */
% for t in v.inputs:
#define ${v.upper}_INPUT_${t.upper}_SIZE ${t.count}u
${t.type} *${v.name}_input_${t.name}(${v.name}_t *model); /* ${t.label}${t.shape}${t.purpose}${t.meaning} */
% endfor

/* Run a forward and a backward pass on the inputs, and add to the gradients. `loss` may be null. */
${v.name}_status_t ${v.name}_train_step(${v.name}_t *model, float *loss);

/* The same pass in slices. Each call runs at least one step, until its budget of cycles is spent. It returns _MORE until
 * the last of ${v.upper}_STEPS steps is done, and then the loss. It exceeds its budget by one step at most.
 * With -DHAL_CYCLES=function, `uint32_t function(void)` counts the cycles; it may wrap to 0. Otherwise the cycles are those
 * predicted for ${v.costs}, a measure of work on other machines. Results are bit-identical to train_step. Until the last step
 * do not change the inputs; other calls that compute are refused. */
#define ${v.upper}_STEPS ${v.train_steps}u
${v.name}_status_t ${v.name}_train_step_begin(${v.name}_t *model);
${v.name}_status_t ${v.name}_train_step_continue(${v.name}_t *model, uint32_t budget_cycles, float *loss);

/* Update the weights with the gradients of the passes since the last update, usually ${v.upper}_ACCUMULATE of them. */
${v.name}_status_t ${v.name}_update(${v.name}_t *model);

/* Discard the passes since the last update, including one under way: the next one begins with zero gradients. */
${v.name}_status_t ${v.name}_drop_passes(${v.name}_t *model);

/* Set the learning rate of a group (below ${v.upper}_RATES) from the next update on. Saved states do not contain it. */
${v.name}_status_t ${v.name}_set_learning_rate(${v.name}_t *model, uint32_t group, float rate);

% for p in v.predictions:
/* Compute the model's output in inference mode${p.purpose}: no dropout, and running statistics in norms. */
${v.name}_status_t ${v.name}_${p.name}(${v.name}_t *model);
% for t in p.outputs:
#define ${v.upper}_${t.upper}_SIZE ${t.count}u
const ${t.type} *${v.name}_${t.name}(const ${v.name}_t *model); /* ${t.label}${t.shape}, valid until the next pass, update or prediction */
% endfor

% endfor
<%include file="replay.h.mako"/>\
/* A weight, optimizer state, or statistics of a norm: its name in the model, shape, elements, and whether they are int32_t. */
<%include file="weight_calls.h.mako"/>
/* Contents of a state image. No image has learning rates or frozen weights, which are constants of this library. */
typedef enum {
    ${v.upper}_KEEP_STATE = 0, /* everything to continue training: weights, optimizer state, gradients that wait for an update */
    ${v.upper}_KEEP_WEIGHTS,   /* weights and statistics of norms; loading resets the optimizer */
    ${v.upper}_KEEP_CHANGES    /* those that differ from the initial ones; for libraries with the same initial weights */
} ${v.name}_keep_t;

/* Size of an image in bytes (for changes the largest size); 0 for an unknown kind. */
#define ${v.upper}_STATE_BYTES ${v.state_bytes}u
#define ${v.upper}_WEIGHTS_BYTES ${v.weights_bytes}u
#define ${v.upper}_CHANGES_BYTES ${v.changes_bytes}u
size_t ${v.name}_state_size(${v.name}_keep_t keep);

/* Write an image to a buffer of `bytes` bytes; `used`, unless null, receives its size. With one pass per update, a state
 * cannot be saved between pass and update (_ERROR_DUE), because it contains no gradients. */
${v.name}_status_t ${v.name}_save(${v.name}_t *model, ${v.name}_keep_t keep, void *image, size_t bytes, size_t *used);

/* Load an image of any kind, from any machine. A foreign or damaged image is refused and changes nothing. */
${v.name}_status_t ${v.name}_load(${v.name}_t *model, const void *image, size_t bytes);

/* Return the digest that an image of the state would end with: equal states have equal digests. */
${v.name}_status_t ${v.name}_digest(${v.name}_t *model, uint64_t *digest);

% for g in v.gradients:
/* Gradients of several devices as one update: each makes passes from the same weights, get_gradients writes what they have
 * added up to an image of _GRADIENTS_BYTES bytes, and add_gradients adds such an image, with the number of its passes, to those
 * of another device of this model, in float32, element by element. An image that is added first is copied. A foreign or damaged
 * image is refused and changes nothing, as is one with more passes than are left until the update (_ERROR_DUE).
 * ${g.order} */
#define ${v.upper}_GRADIENTS_BYTES ${g.bytes}u
${v.name}_status_t ${v.name}_get_gradients(${v.name}_t *model, void *image, size_t bytes);
${v.name}_status_t ${v.name}_add_gradients(${v.name}_t *model, const void *image, size_t bytes);

% endfor
/* Flash with two slots for images, written in turn: after a power cut at any time the previous image is intact.
 * The functions return 0 on success and get `context`. They are called with addresses inside the slots. */
#define ${v.upper}_SLOT_HEAD ${v.slot_head}u       /* bytes of a slot before its image */
#define ${v.upper}_SLOT_DONE ${v.slot_done}u       /* bytes of a record behind the image; there are two, each in units of its own */
#define ${v.upper}_SLOT_UNIT_MOST ${v.slot_unit_most}u /* largest unit in bytes */
typedef struct {
    int (*read)(void *context, uint32_t address, void *bytes, uint32_t count);
    int (*write)(void *context, uint32_t address, const void *bytes, uint32_t count); /* one unit, erased before */
    int (*erase)(void *context, uint32_t address, uint32_t count);                    /* a whole slot */
    void *context;
    uint32_t slots[2];   /* addresses; each slot has sectors of its own */
    uint32_t slot_bytes; /* size of a slot: ${v.upper}_SLOT_HEAD and an image, then twice ${v.upper}_SLOT_DONE, each in whole units */
    uint32_t unit_bytes; /* size of a write: a power of two, at most ${v.upper}_SLOT_UNIT_MOST */
} ${v.name}_flash_t;

/* Write an image to the slot that does not hold the newest one, and read it back. On error the newest one is intact. */
${v.name}_status_t ${v.name}_flash_save(${v.name}_t *model, ${v.name}_keep_t keep, const ${v.name}_flash_t *flash);

/* Load the newest whole image of this model; at the first start there is none (_ERROR_EMPTY). An error changes nothing,
 * except _ERROR_FLASH if the flash reads differently the second time: then call init again. */
${v.name}_status_t ${v.name}_flash_load(${v.name}_t *model, const ${v.name}_flash_t *flash);

/* Return the result of the last call for this struct; return a text for a result. */
${v.name}_status_t ${v.name}_last_error(const ${v.name}_t *model);
const char *${v.name}_status_text(${v.name}_status_t status);

#ifdef __cplusplus
}
#endif

#endif
