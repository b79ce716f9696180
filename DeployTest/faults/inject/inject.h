/* The layer between generated code and HAL that plants one fault per run, and what it must know of the plan.
 *
 * The linker turns every call of the HAL into one of the layer (-Wl,--wrap). A fault addresses steps, transfers and
 * kernel calls of the plan: the n-th transfer of an operand through a hop in one direction, or the n-th kernel call, in
 * each execution of a step. So any generator's code serves that follows the plan. */
#ifndef INJECT_H
#define INJECT_H

#include <stdint.h>

#include "hal.h"

#define INJECT_ARGS_MAX 1024 /* bytes of an argument struct, at most */

/* A field of a kernel's argument struct; kind 'p' is a pointer, 'u', 'i' and 'f' are scalars of 4 bytes. */
typedef struct {
    const char *name;
    uint32_t offset;
    char kind;
} inject_field_t;

/* Where the tiles of an operand lie in the inner level of a hop. */
typedef struct {
    uint32_t hop, start, bytes, reads, writes;
} inject_region_t;

typedef struct {
    const inject_field_t *fields;
    uint32_t field_count, args_bytes;
    const inject_region_t *regions;
    uint32_t region_count;
} inject_step_t;

/* The first ingress of a step's operand starts in the earlier step `at`. */
typedef struct {
    uint32_t step, region, at;
} inject_early_t;

typedef struct {
    uint8_t *memory;
    uint32_t bytes;
} inject_level_t;

typedef struct {
    const inject_level_t *levels;
    uint32_t level_count;
    const inject_step_t *steps;
    uint32_t step_count;
    const inject_early_t *early;
    uint32_t early_count;
    const hal_kernel_t *kernels;
    uint32_t kernel_count;
} inject_plan_t;

extern const inject_plan_t inject_plan; /* printed from the plan */
void inject_after_kernel(void);         /* each wrapped kernel calls it when it is done on a core */

/* ---- inject_faults.c: which fault ---- */

typedef enum {
    AT_STEP,
    AT_MOVE,
    AT_WAIT,
    AT_CALL,
    AT_STORE,
    AT_GRAPH,
    AT_READ,
    AT_WRITE,
    AT_LOSS,
    AT_TABLES, /* a group's fetch of its argument tables; those of any other step are none */
} inject_point_t;
typedef enum {
    OP_CHANGE, /* transfers: add the values to the seven numbers of a move; tables: to area, source and bytes */
    OP_DROP,
    OP_TWICE,
    OP_TWICE_WAITED, /* transfers: the first one is waited for at once */
    OP_TURN,         /* transfers: the other direction */
    OP_LATE,         /* waits, tables: after the next kernel call, or the step's last */
    OP_OTHER,        /* waits: another ticket; reads, writes: another place */
    OP_NUMBER,       /* steps: another number */
    OP_NEXT,         /* steps: exchanged with the one after */
    OP_BEFORE,       /* calls: the arguments of the call before; tables: those of the group before */
    OP_KERNEL,       /* calls: kernel number value[0] */
    OP_POINTER,      /* calls: field value[0] moves by value[1] bytes */
    OP_PLACE,        /* calls: field value[0] points to offset value[2] of level value[1]; -1 is NULL */
    OP_EXCHANGE,     /* calls: fields value[0] and value[1] */
    OP_ADD,          /* calls: scalar field value[0] plus value[1] */
    OP_SET,          /* calls, graphs: scalar field value[0] becomes value[1]; the flag becomes value[0] */
    OP_SCALE,        /* calls: scalar field value[0] times value[1] / 1000 */
    OP_INVERT,       /* calls, graphs: a flag; tables: bit value[1] of byte value[0] of what was fetched */
    OP_EXTRA,        /* graphs: the other one once more after this */
} inject_op_t;

/* The fault's actions: `ordinal` counts within an execution of the step, or passes; -1 is all of them. */
typedef struct {
    inject_point_t point;
    int32_t step, region, way, ordinal;
    inject_op_t op;
    int64_t value[7];
} inject_action_t;

void inject_parse(const char *text); /* points and operations are numbers; see DeployTest/faults/inject/fault.py */
/* The action at this place, or NULL. */
const inject_action_t *inject_find(inject_point_t point, uint32_t step, uint32_t region, uint32_t way,
                                   uint32_t ordinal);
/* The first action of that kind, wherever it is, or NULL. */
const inject_action_t *inject_first(inject_point_t point, inject_op_t op);

/* ---- also inject_faults.c: what the right program does ---- */

typedef struct {
    uint32_t hop, inward;
    uint8_t *inner, *outer;
    uint32_t run, count, stride, planes, plane_stride, form; /* form: 1, 2 or 3 dimensions */
} inject_move_t;

void census_open(const char *path);
void census_step(uint32_t step);
void census_move(const inject_move_t *move, uint32_t region); /* of the step that was named last */
void census_early(uint32_t step, const inject_move_t *move, uint32_t region);
void census_tables(uint32_t bytes);
void census_call(uint32_t step, hal_kernel_t kernel, const void *args);
void census_read(const void *destination, uint32_t bytes, uint64_t file_offset);
void census_write(const void *source, uint32_t bytes);
/* Level and offset of an address, level_count where it is in none; and back, NULL for level -1. */
uint32_t inject_place(const void *address, uint32_t *offset);
uint8_t *inject_at(int64_t level, int64_t offset);

/* ---- inject_around.c: graphs and harness ---- */

void inject_restore_loss(void); /* the loss's home has its own value again: the harness has read another */

#endif
