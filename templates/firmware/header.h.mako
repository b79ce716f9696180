/* ${v.title}
 *
 * ${v.provenance}
 *
 * A library that trains this model, and predicts with the weights that it is training. It allocates no memory, prints
 * nothing and has no state but the struct ${v.name}_t, of which a program may have any number. Functions are no
 * interrupt handlers, and one struct is for one thread at a time.
 *
 * A training pass: fill the inputs, call ${v.name}_train_step; after ${v.accumulate} of them call ${v.name}_update.
 * A prediction: fill the inputs but the target, call ${v.name}_predict, read ${v.name}_output. It may come at any time,
 * and changes no bit of the training. Inputs may be filled at any time, and stay as they are until then. */
#ifndef ${v.upper}_H_INCLUDED
#define ${v.upper}_H_INCLUDED

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ${v.upper}_ACCUMULATE ${v.accumulate}u /* training passes per update */
#define ${v.upper}_MEMORY_WORDS ${v.words}u /* of 4 bytes: weights, optimizer state, gradients and all values in between */
#define ${v.upper}_NUMBERS ${v.numbers}u /* that an update takes from learning rates */
#define ${v.upper}_WEIGHTS ${v.weights}u /* tensors that last: weights, and what optimizer and norms keep */
#define ${v.upper}_RATES ${v.rates}u /* learning rates: groups of weights with one of their own */

/* How a call ended. */
typedef enum {
    ${v.upper}_OK = 0,
    ${v.upper}_MORE,           /* no error: steps of the pass are left */
    ${v.upper}_ERROR_POINTER,  /* a pointer is null */
    ${v.upper}_ERROR_STRUCT,   /* ${v.name}_init has not prepared this struct */
    ${v.upper}_ERROR_MACHINE,  /* this machine, compiler or library rounds in another way; -DHAL_OWN_FMA may help */
    ${v.upper}_ERROR_FLAGS,    /* a source is compiled with flags that change results, such as -ffast-math or -ffp-contract=fast */
    ${v.upper}_ERROR_DUE,      /* an update has to come first */
    ${v.upper}_ERROR_EARLY,    /* there was no training pass since the last update, or none was begun */
    ${v.upper}_ERROR_RUNNING,  /* a training pass was begun, and has to come to its end */
    ${v.upper}_ERROR_INPUT,    /* an input chooses, as a label does, and holds a number that there is no choice for */
    ${v.upper}_ERROR_LOSS,     /* the loss is infinite or no number; passes and updates are refused until drop_passes */
    ${v.upper}_ERROR_INDEX,    /* there is no weight, no rate, or no kind of image, of that number */
    ${v.upper}_ERROR_NAME,     /* there is no weight of that name */
    ${v.upper}_ERROR_SIZE,     /* the number of bytes does not fit */
    ${v.upper}_ERROR_RATE,     /* the learning rate is infinite or no number */
    ${v.upper}_ERROR_FOREIGN,  /* this is no state of this model */
    ${v.upper}_ERROR_DAMAGED,  /* bytes of the saved state were lost or changed */
    ${v.upper}_ERROR_EMPTY,    /* nothing was saved in this flash */
    ${v.upper}_ERROR_FLASH     /* flash is not as it is described, a function failed, or bytes do not last */
} ${v.name}_status_t;

/* Everything that a model in training needs; its members are the library's own. */
typedef struct {
    union {
        float f32[${v.upper}_MEMORY_WORDS];
        int32_t i32[${v.upper}_MEMORY_WORDS];
        uint32_t u32[${v.upper}_MEMORY_WORDS];
    } memory;
    float numbers[${v.upper}_NUMBERS + 1u];
    uint32_t passes;
    uint32_t step;
    uint32_t ready;
    ${v.name}_status_t last;
} ${v.name}_t;

/* Prepares a struct: weights as the model has them, an optimizer that has made no update. First of all calls. */
${v.name}_status_t ${v.name}_init(${v.name}_t *model);

/* Where samples go, elements packed, the last index fastest; null for a struct that is not prepared. */
% for t in v.inputs:
#define ${v.upper}_INPUT_${t.upper}_SIZE ${t.count}u
${t.type} *${v.name}_input_${t.name}(${v.name}_t *model); /* ${t.label}${t.shape} */
% endfor

/* Forward and backward pass over the inputs; adds to the gradients. `loss` may be null. */
${v.name}_status_t ${v.name}_train_step(${v.name}_t *model, float *loss);

/* The same pass in parts: each call makes steps, at least one, until it has spent its budget of cycles, and says _MORE until
 * the last of ${v.upper}_STEPS is made, with the loss. It returns at the end of a step, later than its budget by one step at most.
 * Cycles are those of a counter where the library is built with -DHAL_CYCLES=function, of `uint32_t function(void)`, which
 * goes on from the highest number to 0; else those predicted for ${v.costs}, which other machines do not have. No bit depends on
 * the parts; meanwhile inputs stay as they are, and other calls that compute are refused. */
#define ${v.upper}_STEPS ${v.train_steps}u
${v.name}_status_t ${v.name}_train_step_begin(${v.name}_t *model);
${v.name}_status_t ${v.name}_train_step_continue(${v.name}_t *model, uint32_t budget_cycles, float *loss);

/* Changes the weights by the gradients of the passes since the last update, usually ${v.upper}_ACCUMULATE of them. */
${v.name}_status_t ${v.name}_update(${v.name}_t *model);

/* Forgets the passes since the last update, also one that is under way: the next one begins with gradients of zero. */
${v.name}_status_t ${v.name}_drop_passes(${v.name}_t *model);

/* The learning rate of a group, below ${v.upper}_RATES, for updates to come. It is no part of the state that is saved. */
${v.name}_status_t ${v.name}_set_learning_rate(${v.name}_t *model, uint32_t group, float rate);

% for t in v.output:
/* The model's output for the inputs, as it is used once trained: nothing is dropped, norms take running statistics. */
${v.name}_status_t ${v.name}_predict(${v.name}_t *model);
#define ${v.upper}_OUTPUT_SIZE ${t.count}u
const ${t.type} *${v.name}_output(const ${v.name}_t *model); /* ${t.label}${t.shape}, until the next pass, update or prediction */

% endfor
/* A weight, or what the optimizer or a norm keeps: what the model calls it, its elements, whether these are int32_t. */
typedef struct {
    const char *name;
    const char *shape;
    uint32_t count;
    uint32_t is_int32;
} ${v.name}_weight_t;

/* What weight `index`, below ${v.upper}_WEIGHTS, is; and the index of a name. */
${v.name}_status_t ${v.name}_weight_info(uint32_t index, ${v.name}_weight_t *info);
${v.name}_status_t ${v.name}_weight_index(const char *name, uint32_t *index);

/* Copies a weight; `bytes` is that of all its elements, 4 each. */
${v.name}_status_t ${v.name}_get_weight(${v.name}_t *model, uint32_t index, void *values, size_t bytes);
${v.name}_status_t ${v.name}_set_weight(${v.name}_t *model, uint32_t index, const void *values, size_t bytes);

/* What an image of the state holds. None has frozen weights, which are constants of this library, or learning rates. */
typedef enum {
    ${v.upper}_KEEP_STATE = 0, /* all that training goes on from: weights, optimizer, gradients that wait for an update */
    ${v.upper}_KEEP_WEIGHTS,   /* weights and statistics of norms; loaded, the optimizer is as at first */
    ${v.upper}_KEEP_CHANGES    /* those of them that differ from the first ones; for libraries that begin with the same */
} ${v.name}_keep_t;

/* Bytes of an image, of changes the most that it may have; 0 for another number. */
#define ${v.upper}_STATE_BYTES ${v.state_bytes}u
#define ${v.upper}_WEIGHTS_BYTES ${v.weights_bytes}u
#define ${v.upper}_CHANGES_BYTES ${v.changes_bytes}u
size_t ${v.name}_state_size(${v.name}_keep_t keep);

/* Writes an image to memory of so many bytes; `used`, unless null, is how many it has. With one pass per update, the state
 * waits for the update (_ERROR_DUE), as no gradient is part of it. */
${v.name}_status_t ${v.name}_save(${v.name}_t *model, ${v.name}_keep_t keep, void *image, size_t bytes, size_t *used);

/* Takes an image of any kind, of any machine. What is foreign or damaged is refused and changes nothing. */
${v.name}_status_t ${v.name}_load(${v.name}_t *model, const void *image, size_t bytes);

/* The digest with which an image of the state would end: equal states have equal ones. */
${v.name}_status_t ${v.name}_digest(${v.name}_t *model, uint64_t *digest);

/* Flash with two slots for images, which are written in turn: a cut of the power at any time leaves the last image.
 * The functions answer 0 where all went well; `context` is handed to them. They are called with addresses inside of slots. */
#define ${v.upper}_SLOT_HEAD ${v.slot_head}u       /* bytes of a slot before its image */
#define ${v.upper}_SLOT_DONE ${v.slot_done}u       /* bytes of a record behind the image; there are two, in units of their own */
#define ${v.upper}_SLOT_UNIT_MOST ${v.slot_unit_most}u /* bytes of a unit at most */
typedef struct {
    int (*read)(void *context, uint32_t address, void *bytes, uint32_t count);
    int (*write)(void *context, uint32_t address, const void *bytes, uint32_t count); /* one unit, erased before */
    int (*erase)(void *context, uint32_t address, uint32_t count);                    /* a whole slot */
    void *context;
    uint32_t slots[2];   /* their addresses; sectors of their own */
    uint32_t slot_bytes; /* of each: room for ${v.upper}_SLOT_HEAD and an image, and twice ${v.upper}_SLOT_DONE, each in whole units */
    uint32_t unit_bytes; /* that are written at once: a power of two, at most ${v.upper}_SLOT_UNIT_MOST */
} ${v.name}_flash_t;

/* Writes an image to the slot that does not hold the newest one, and reads it again. An error leaves the newest one. */
${v.name}_status_t ${v.name}_flash_save(${v.name}_t *model, ${v.name}_keep_t keep, const ${v.name}_flash_t *flash);

/* Takes the newest image that is whole and of this model; none is there after the first start (_ERROR_EMPTY). An error
 * changes nothing; only where flash reads otherwise a moment later (_ERROR_FLASH), the struct has to be prepared again. */
${v.name}_status_t ${v.name}_flash_load(${v.name}_t *model, const ${v.name}_flash_t *flash);

/* How the last call for this struct ended, and what that means in English. */
${v.name}_status_t ${v.name}_last_error(const ${v.name}_t *model);
const char *${v.name}_status_text(${v.name}_status_t status);

#ifdef __cplusplus
}
#endif

#endif
