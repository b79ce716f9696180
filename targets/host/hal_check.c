/* What must not happen at the same time: transfers that share bytes with others or with a kernel's operands. */
#include "hal_host.h"

#include <string.h>

static const hal_sim_step_t *step(void) { return &hal_sim.steps[host.step]; }

/* ---- transfers against transfers ---- */

static void fail_conflict(const char *check, const host_transfer_t *t, const host_transfer_t *other,
                          const host_side_t *side, uint32_t at, const char *begins, const char *is) {
    host_fail(check, "%s begins to %s %s + 0x%x, which %s is still %s", dma_name(t), begins,
              hal_sim.levels[side->place.level].name, at, dma_name(other), is);
}

void check_conflicts(const host_transfer_t *t) {
    const host_side_t *source = dma_source(t), *target = dma_target(t);
    const host_transfer_t *other;
    uint32_t at;
    if ((other = dma_meeting(source, 1, &at))) fail_conflict("forgotten-wait", t, other, source, at, "read", "writing");
    if ((other = dma_meeting(target, 1, &at))) fail_conflict("forgotten-wait", t, other, target, at, "write", "writing");
    if ((other = dma_meeting(target, 0, &at))) fail_conflict("write-while-read", t, other, target, at, "write", "reading");
}

/* An ingress of no bytes takes the place of the tile before, whose content is gone. */
void check_empty(uint32_t hop, uint32_t inward, const void *inner) {
    host_place_t place;
    if (!memory_find(&place, inner, 1) || place.level != hop || place.buffer->kind != HAL_SIM_SLOT)
        host_fail("outside-buffer", "an empty transfer through hop %u has no slot: %s", hop, memory_where(inner, 1));
    const host_transfer_t *t = inward ? dma_touching(hop, place.start, place.end, 1) : NULL;
    if (inward && !t) t = dma_touching(hop, place.start, place.end, 0);
    if (t) host_fail("forgotten-wait", "an empty transfer takes the place of %s", dma_name(t));
    trace_transfer(NULL, hop, inward, &place);
    if (inward) memory_poison(hal_sim.levels[hop].memory + place.start, place.end - place.start);
}

/* ---- kernels ---- */

/* Whether the address is the end of the operand's resident home, where an empty box behind all others begins. */
static uint32_t is_home_end(const hal_sim_operand_t *operand, const void *pointer) {
    if (operand->slot != HAL_SIM_NONE) return 0;
    const hal_sim_buffer_t *home = &hal_sim.buffers[operand->home];
    return (const uint8_t *)pointer == hal_sim.levels[home->level].memory + home->address + home->bytes;
}

static void check_operand(const hal_sim_operand_t *operand, const void *args) {
    host_place_t place;
    const void *pointer;
    memcpy(&pointer, (const uint8_t *)args + operand->offset, sizeof pointer);
    if (!pointer || is_home_end(operand, pointer)) return; /* the trace knows whether it may be */
    if (!memory_find(&place, pointer, 1))
        host_fail("outside-buffer", "operand '%s' of kernel call %u does not point into a live buffer: %s",
                  operand->arg, host.calls, memory_where(pointer, 1));
    const host_transfer_t *t = dma_touching(place.level, place.start, place.end, 1);
    if (t)
        host_fail("forgotten-wait", "operand '%s' of kernel call %u is %s, which %s is still writing", operand->arg,
                  host.calls, memory_name(&place), dma_name(t));
    t = operand->writes ? dma_touching(place.level, place.start, place.end, 0) : NULL;
    if (t)
        host_fail("write-while-read", "kernel call %u writes operand '%s', %s, which %s is still reading", host.calls,
                  operand->arg, memory_name(&place), dma_name(t));
}

void check_kernel(const void *args) {
    for (uint32_t i = 0; i < step()->operand_count; i++) check_operand(&step()->operands[i], args);
}

/* ---- a step's end ---- */

void check_leave(void) {
    const host_transfer_t *t = dma_due();
    if (t) host_fail("forgotten-wait", "the step ends, and nobody waited for %s", dma_name(t));
    guard_check();
    if (host.calls != step()->tile_count)
        host_fail("tile-count", "%u kernel calls in a step of %u tiles", host.calls, step()->tile_count);
    trace_leave();
    copies_leave();
}
