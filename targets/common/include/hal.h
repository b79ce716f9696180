/* What generated code and kernels may call. Every target implements exactly this.
 *
 * Levels are numbered from the innermost, which is 0. A hop has the number of its inner level: hop 0 moves between the
 * innermost and the next one out.
 * A tile in the inner level is packed; runs and strides describe the box in the outer level, in bytes. A transfer of no
 * bytes, be it for lack of runs or of lines, is HAL_DONE at once and costs nothing but the call: padding has such tiles. */
#ifndef HAL_H
#define HAL_H

#include <stdint.h>

#include "hal_target.h" /* HAL_TABLE: where kernel argument tables lie */

/* ---- compute ---- */

typedef void (*hal_kernel_t)(const void *args);

#ifndef HAL_INLINE_CORES /* a target may define these two as static inline functions in hal_target.h */
uint32_t hal_core_id(void);
uint32_t hal_core_count(void);
#endif
extern const uint32_t hal_plan_cores; /* cores the plan was made for; the harness defines it */
/* Runs the kernel on every core and returns when all are done. */
void hal_parallel(hal_kernel_t kernel, const void *args);

static inline uint32_t hal_min(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Clipped bounds of a tile's box on a windowed axis: an index before padding is taken off, and the first window that
 * reaches an index. */
static inline uint32_t hal_window(uint32_t index, uint32_t pad, uint32_t extent) {
    return index <= pad ? 0 : hal_min(index - pad, extent);
}
static inline uint32_t hal_reach(uint32_t index, uint32_t reach, uint32_t stride, uint32_t extent) {
    return index <= reach ? 0 : hal_min((index - reach + stride - 1) / stride, extent);
}

/* ---- memory: asynchronous transfers, in = towards the cores ---- */

typedef uint32_t hal_ticket_t;
#define HAL_DONE ((hal_ticket_t)0) /* a ticket that needs no waiting */

hal_ticket_t hal_dma_in_1d(uint32_t hop, void *inner, const void *outer, uint32_t bytes);
hal_ticket_t hal_dma_in_2d(uint32_t hop, void *inner, const void *outer, uint32_t run, uint32_t count, uint32_t stride);
hal_ticket_t hal_dma_in_3d(uint32_t hop, void *inner, const void *outer, uint32_t run, uint32_t count, uint32_t stride,
                           uint32_t planes, uint32_t plane_stride);
hal_ticket_t hal_dma_out_1d(uint32_t hop, void *outer, const void *inner, uint32_t bytes);
hal_ticket_t hal_dma_out_2d(uint32_t hop, void *outer, const void *inner, uint32_t run, uint32_t count, uint32_t stride);
hal_ticket_t hal_dma_out_3d(uint32_t hop, void *outer, const void *inner, uint32_t run, uint32_t count, uint32_t stride,
                            uint32_t planes, uint32_t plane_stride);
/* Returns when the transfer has ended; each ticket but HAL_DONE is waited for exactly once. */
void hal_dma_wait(hal_ticket_t ticket);
/* Waits for several tickets, one after the other. */
static inline void hal_dma_wait_all(const hal_ticket_t *tickets, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) hal_dma_wait(tickets[i]);
}

/* Copies argument tables of steps to come into the innermost level, and returns when they are there. */
#ifdef HAL_WATCHES_TABLES /* the simulator has one that compares the copy with the plan */
void hal_tables(void *tables, const void *source, uint32_t bytes);
#else
static inline void hal_tables(void *tables, const void *source, uint32_t bytes) {
    hal_dma_wait(hal_dma_in_1d(0, tables, source, bytes));
}
#endif

/* ---- platform ---- */

void hal_init(int argc, char **argv);
/* Says which step of the plan runs from here on, HAL_NO_STEP after a graph's last: the simulator checks what the step
 * before moved, a trap handler prints the number. */
#define HAL_NO_STEP 0xffffffffu
void hal_step(uint32_t step);
/* Runs `count` steps from number `step` on, whose argument tables of `bytes` lie one behind the other: every core calls the
 * kernel for one after the other, and waits for the other cores after the last one alone. Of hal_parallel_each each step has
 * a kernel of its own. */
#ifdef HAL_WATCHES_STEPS /* the simulator runs them one by one and compares each with the plan */
void hal_set_tables(const void *args, uint32_t bytes); /* what was just written there was to be written */

static inline void hal_parallel_steps(uint32_t step, hal_kernel_t kernel, const void *args, uint32_t bytes, uint32_t count) {
    hal_set_tables(args, count * bytes);
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0) hal_step(step + i);
        hal_parallel(kernel, (const uint8_t *)args + i * bytes);
    }
}

static inline void hal_parallel_each(uint32_t step, const hal_kernel_t *kernels, const void *args, uint32_t bytes, uint32_t count) {
    hal_set_tables(args, count * bytes);
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0) hal_step(step + i);
        hal_parallel(kernels[i], (const uint8_t *)args + i * bytes);
    }
}
#else
typedef struct {
    hal_kernel_t kernel;
    const uint8_t *args;
    uint32_t bytes, count;
} hal_steps_t;

static inline void hal_each_step(const void *steps) {
    const hal_steps_t *p = steps;
    const hal_kernel_t kernel = p->kernel;
    const uint8_t *args = p->args;
    const uint32_t bytes = p->bytes;
    for (uint32_t left = p->count; left > 0; left--, args += bytes) kernel(args);
}

static inline void hal_parallel_steps(uint32_t step, hal_kernel_t kernel, const void *args, uint32_t bytes, uint32_t count) {
    const hal_steps_t steps = {kernel, args, bytes, count};
    (void)step;
    hal_parallel(hal_each_step, &steps);
}

typedef struct {
    const hal_kernel_t *kernels;
    const uint8_t *args;
    uint32_t bytes, count;
} hal_own_steps_t;

static inline void hal_each_own_step(const void *steps) {
    const hal_own_steps_t *p = steps;
    const hal_kernel_t *kernels = p->kernels;
    const uint8_t *args = p->args;
    const uint32_t bytes = p->bytes;
    for (uint32_t left = p->count; left > 0; left--, kernels++, args += bytes) (*kernels)(args);
}

static inline void hal_parallel_each(uint32_t step, const hal_kernel_t *kernels, const void *args, uint32_t bytes, uint32_t count) {
    const hal_own_steps_t steps = {kernels, args, bytes, count};
    (void)step;
    hal_parallel(hal_each_own_step, &steps);
}
#endif

/* The target's clock: model cycles, retired instructions or cycles; see the BENCH line. */
uint64_t hal_cycles(void);
/* The run's input file, read front to back; the result file, written front to back. `bytes` move to or from any level. */
void hal_read(void *destination, uint32_t bytes);
void hal_write(const void *source, uint32_t bytes);
void hal_print(const char *text);
_Noreturn void hal_exit(int code);

#endif
