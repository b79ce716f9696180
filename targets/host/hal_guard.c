/* Stray writes: a second copy of all levels holds what the plan lets be written into them, by transfers, the harness,
 * poison and the kernels' own boxes. Where level and copy differ, something else wrote. */
#include "hal_host.h"

#include <string.h>

static uint8_t **copies; /* by level; NULL where nothing is guarded */
static uint32_t running; /* whether a kernel call has just ended */

static uint8_t *level_memory(uint32_t level) { return hal_sim.levels[level].memory; }

void guard_init(void) {
    if (host.guards == HOST_GUARDS_OFF) return;
    copies = host_allocate(hal_sim.level_count, sizeof *copies);
    for (uint32_t i = 0; i < hal_sim.level_count; i++) {
        copies[i] = host_allocate(1, hal_sim.levels[i].bytes);
        memory_copy(copies[i], level_memory(i), hal_sim.levels[i].bytes);
    }
}

void guard_accept(const void *address, uint32_t bytes) {
    if (!copies) return;
    const uint32_t level = memory_level(address);
    if (level == hal_sim.level_count) return;
    memory_copy(copies[level] + ((const uint8_t *)address - level_memory(level)), address, bytes);
}

/* What runs, or ran last: for messages. */
static const char *suspect(void) {
    if (host.step == HAL_NO_STEP) return "the program between graphs ";
    if (!host.calls) return "the program before any kernel call ";
    return host_text(running ? "kernel call %u " : "kernel call %u or what followed it ", host.calls - 1);
}

/* A transfer in flight says more of a changed byte than its place does. */
static void fail_in_flight(uint32_t level, uint32_t at) {
    const host_transfer_t *t = dma_touching(level, at, at + 1, 0);
    if (t) host_fail("write-while-read", "%s + 0x%x, in the source of %s, changed between start and wait",
                     hal_sim.levels[level].name, at, dma_name(t));
    t = dma_touching(level, at, at + 1, 1);
    if (t) host_fail("forgotten-wait", "%s + 0x%x, in the destination of %s, was written before the wait",
                     hal_sim.levels[level].name, at, dma_name(t));
}

static void fail_stray(uint32_t level, uint32_t at) {
    const uint8_t *address = level_memory(level) + at;
    const char *operand = running ? trace_beside(level, at) : "";
    fail_in_flight(level, at);
    host_fail("guard", "%swrote where it must not, 0x%02x instead of 0x%02x: %s%s", suspect(), memory_byte(address),
              copies[level][at], memory_text(address), operand);
}

static void check_level(uint32_t level) {
    const uint32_t bytes = hal_sim.levels[level].bytes;
    const uint32_t at = memory_difference(level_memory(level), copies[level], bytes);
    if (at < bytes) fail_stray(level, at);
}

void guard_check(void) {
    for (uint32_t i = 0; copies && i < hal_sim.level_count; i++) check_level(i);
}

void guard_source(const host_side_t *side) {
    const uint32_t level = side->place.level;
    for (uint32_t i = 0; copies && i < side_lines(side); i++) {
        const uint32_t start = side_run(side, i);
        const uint32_t at = memory_difference(level_memory(level) + start, copies[level] + start, side->run);
        if (at < side->run) fail_stray(level, start + at);
    }
}

static void accept_run(uint32_t level, uint32_t start, uint32_t bytes) { guard_accept(level_memory(level) + start, bytes); }

void guard_kernel(void) {
    if (!copies) return;
    trace_each_written(accept_run);
    running = 1;
    if (host.guards == HOST_GUARDS_FULL) guard_check();
    else for (uint32_t level = 0; level < hal_sim.level_count; level++)
        if (trace_works_in(level)) check_level(level);
    running = 0;
}
