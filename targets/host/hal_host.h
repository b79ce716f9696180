/* What the parts of the simulator share: hal.c platform and cores, hal_order.c the order of steps, hal_memory.c levels,
 * buffers and their lives, hal_dma.c transfers, hal_loops.c and hal_trace.c what the plan says a step moves and calls,
 * hal_cross_step.c transfers from one step to another, hal_copies.c cached copies, hal_tables.c argument tables that
 * steps fetch, hal_check.c what must not happen at the same time, hal_guard.c stray writes, hal_exact.c how the machine
 * rounds, hal_watch.c values on request. */
#ifndef HAL_HOST_H
#define HAL_HOST_H

#include "hal.h"
#include "hal_sim.h"

#include <stdio.h>

#if defined(__SANITIZE_ADDRESS__)
#define HOST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HOST_ASAN 1
#endif
#endif

#define HOST_PARTS 3 /* of a slot, at most */

typedef enum { HOST_EARLY, HOST_LATE, HOST_RANDOM } host_order_t;

typedef enum { HOST_GUARDS_OFF, HOST_GUARDS_FAST, HOST_GUARDS_FULL } host_guards_t;

typedef struct {
    uint32_t step;  /* HAL_NO_STEP between graphs */
    uint32_t owner; /* the step whose transfers the trace looks at: this one, but for a transfer of a later step */
    uint32_t calls; /* of hal_parallel in this step */
    uint64_t now;   /* the virtual clock */
    uint32_t cores, trace;
    host_order_t dma_order;
    host_guards_t guards;
    uint32_t accumulated; /* passes since the last update, where a run goes on that another program began */
    uint32_t flush; /* an update follows the pass of this number, counted on from `accumulated`, in any case; 0: no pass */
    uint32_t seed;
} host_t;
extern host_t host;

/* Ends the run with code 3: "hal: step 4 'fc1': <check>: ...". */
_Noreturn void host_fail(const char *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends the run with code 2: the command line, a file or the map is wrong. */
_Noreturn void host_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends the run with code 4: the machine cannot compute what the kernels need. */
_Noreturn void host_unfit(const char *format, ...) __attribute__((format(printf, 1, 2)));
void *host_allocate(uint64_t count, uint64_t bytes);
/* A text that stays valid for the next few calls. */
const char *host_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint32_t host_random(uint32_t *state); /* xorshift, state not 0 */

/* ---- hal_exact.c ---- */

void exact_init(void); /* does not return where fmaf rounds more than once */

/* ---- hal_order.c ---- */

void order_init(void);
void order_step(uint32_t step); /* of hal_step: fails unless it is the one that is due */
void order_exit(void);
uint32_t order_pass(void);   /* the pass that is due or runs */
uint32_t order_resets(void); /* whether the pass overwrites the accumulators: the lazy-reset flag */

/* ---- hal_watch.c ---- */

void watch_init(FILE *list, FILE *values); /* NULL where nothing is watched */
void watch_step(uint32_t step);            /* that has just ended */
void watch_exit(void);

/* ---- hal_memory.c ---- */

/* A place in a level: the live buffer that holds it, and the buffer's part (the whole of a home) as level offsets. */
typedef struct {
    const hal_sim_buffer_t *buffer;
    uint32_t level, offset, part, start, end;
} host_place_t;

void memory_init(void);
void memory_enter(uint32_t step); /* ends and begins the lives of buffers; HAL_NO_STEP: opens all homes */
uint32_t memory_level(const void *address); /* level_count where it lies in none */
/* Finds the live buffer, and part of a slot, that holds all of the range. */
uint32_t memory_find(host_place_t *place, const void *address, uint32_t bytes);
const char *memory_where(const void *address, uint32_t bytes); /* for messages: the nearest buffer and the distance */
const char *memory_name(const host_place_t *place);
const char *memory_text(const void *address); /* any address */
void memory_poison(void *address, uint32_t bytes);
uint32_t memory_unpoisoned(const void *address, uint32_t bytes); /* index of the first byte that is not poison */

uint8_t memory_byte(const void *address);

/* These touch level memory without AddressSanitizer's leave. */
void memory_copy(void *to, const void *from, uint32_t bytes);
void memory_store(void *to, const void *from, uint32_t bytes); /* into a level, as the plan allows */
uint32_t memory_difference(const void *a, const void *b, uint32_t bytes); /* first index, `bytes` where equal */
void memory_close(const void *address, uint32_t bytes);                   /* to AddressSanitizer */
void memory_open(const void *address, uint32_t bytes);

/* ---- hal_dma.c ---- */

/* One side of a transfer: planes x count runs of `run` bytes. */
typedef struct {
    uint8_t *base;
    uint32_t run, count, stride, planes, plane_stride;
    host_place_t place;
} host_side_t;

typedef struct {
    uint32_t ticket, hop, inward, bytes, copied, waited, until; /* by the end of step `until` somebody waits */
    host_side_t inner, outer;
    uint8_t *snapshot; /* of the source at start, packed */
    uint64_t end;
} host_transfer_t;

void dma_init(void);
void dma_enter(void);                 /* a step begins, which knows the cross-step transfers into it */
void dma_tick(void);                  /* random order: some transfers get their copy now */
const host_transfer_t *dma_any(void); /* one that nobody has waited for, or NULL */
const host_transfer_t *dma_due(void); /* one for which somebody must have waited by the end of this step, or NULL */
/* The first transfer in flight that writes (`writes`) or reads bytes of the level's range, or bytes of the side; `at` is
 * the first of these. */
const host_transfer_t *dma_touching(uint32_t level, uint32_t start, uint32_t end, uint32_t writes);
const host_transfer_t *dma_meeting(const host_side_t *side, uint32_t writes, uint32_t *at);
const char *dma_name(const host_transfer_t *transfer);
uint32_t side_lines(const host_side_t *side);
uint32_t side_run(const host_side_t *side, uint32_t line); /* level offset of a run */
const host_side_t *dma_source(const host_transfer_t *transfer);
const host_side_t *dma_target(const host_transfer_t *transfer);

/* ---- hal_trace.c ---- */

/* A box in a level: `start` is its first byte's offset, `levels` are counts and strides, innermost first, where no two
 * could be one; the first is the run. */
typedef struct {
    uint32_t count, stride;
} host_level_t;
typedef struct {
    uint32_t start, bytes, rank;
    host_level_t levels[16]; /* one more than axes */
} host_box_t;

void trace_init(void);
void trace_enter(void);
/* Before it begins; `transfer` is NULL where it moves no bytes. Returns the step by whose end it is awaited. */
uint32_t trace_transfer(const host_transfer_t *transfer, uint32_t hop, uint32_t inward, const host_place_t *inner);
void trace_kernel(const void *args); /* before the call */
void trace_kernel_done(void);
void trace_leave(void);

typedef void (*host_visit_t)(uint32_t level, uint32_t start, uint32_t bytes);
void trace_each_written(host_visit_t visit); /* runs of what the call due writes */
uint32_t trace_works_in(uint32_t level); /* whether the call due may write there: the inner level, or one of homes */
const char *trace_beside(uint32_t level, uint32_t at); /* for messages: the box the call writes near that byte */

/* ---- hal_cross_step.c ---- */

void cross_step_init(void);
const hal_sim_cross_step_t *cross_step_of(uint32_t step, const hal_sim_operand_t *operand, uint32_t inward); /* or NULL */
/* The first ingress, or the next after another, that starts in step `at`, or NULL. */
const hal_sim_cross_step_t *cross_step_next(uint32_t at, const hal_sim_cross_step_t *previous);

/* ---- hal_copies.c ---- */

void copies_init(void);
/* Before it begins: the cached copy that this transfer makes or writes back, or NULL. */
const hal_sim_copy_t *copies_begin(const host_transfer_t *transfer);
void copies_leave(void); /* the step ends */

/* ---- hal_tables.c ---- */

void tables_enter(uint32_t step);
void tables_check_kernel(const void *args); /* before the call */

/* ---- hal_guard.c ---- */

void guard_init(void);
void guard_accept(const void *address, uint32_t bytes); /* what was just written was to be written */
void guard_source(const host_side_t *side); /* what a transfer is about to read */
void guard_kernel(void); /* after a call: the inner level, under "full" all levels */
void guard_check(void);  /* all levels */

/* ---- hal_check.c ---- */

void check_conflicts(const host_transfer_t *transfer); /* before it begins */
void check_empty(uint32_t hop, uint32_t inward, const void *inner); /* instead of a transfer of no bytes */
void check_kernel(const void *args);
void check_leave(void);

#endif
