/* Transfers of residency intervals: a tensor at home in an outer level is copied whole to the next level before the steps that
 * use it, and back after them. */
#include "hal_host.h"

/* What a map without copies means. */
__attribute__((weak)) const hal_sim_copies_t hal_sim_copies = {NULL, 0};

static uint8_t *begun; /* by copy: in this step */

static const hal_sim_copy_t *copies_end(void) { return hal_sim_copies.list + hal_sim_copies.count; }

static uint32_t is_whole(const host_side_t *side, uint32_t number) {
    const hal_sim_buffer_t *b = &hal_sim.buffers[number];
    return side->place.buffer == b && side->place.offset == b->address && side->count * side->planes == 1 &&
           side->run == b->bytes;
}

const hal_sim_copy_t *copies_begin(const host_transfer_t *t) {
    if (t->inner.place.buffer->kind != HAL_SIM_HOME) return NULL;
    const uint32_t home = (uint32_t)(t->inner.place.buffer - hal_sim.buffers);
    for (const hal_sim_copy_t *c = hal_sim_copies.list; c < copies_end(); c++) {
        if (c->start != host.step || c->inward != t->inward || c->inner != home) continue;
        if (!is_whole(&t->inner, c->inner) || !is_whole(&t->outer, c->outer))
            host_fail("trace", "%s is to be all of '%s' and '%s'", dma_name(t), hal_sim.buffers[c->inner].name,
                      hal_sim.buffers[c->outer].name);
        if (begun[c - hal_sim_copies.list]++ || host.calls)
            host_fail("trace", "%s: a copy starts once, and before kernel call 0", dma_name(t));
        return c;
    }
    return NULL;
}

void copies_leave(void) {
    for (const hal_sim_copy_t *c = hal_sim_copies.list; c < copies_end(); c++) {
        if (c->start != host.step) continue;
        if (!begun[c - hal_sim_copies.list])
            host_fail("trace", "the step ends without the copy %s '%s', which was to start in it",
                      c->inward ? "to" : "from", hal_sim.buffers[c->inner].name);
        begun[c - hal_sim_copies.list] = 0;
    }
}

void copies_init(void) {
    begun = host_allocate(hal_sim_copies.count + 1, 1);
    for (const hal_sim_copy_t *c = hal_sim_copies.list; c < copies_end(); c++)
        if (c->inner >= hal_sim.buffer_count || c->outer >= hal_sim.buffer_count || c->until >= hal_sim.step_count ||
            c->start > c->until || hal_sim.buffers[c->inner].level + 1 != hal_sim.buffers[c->outer].level)
            host_usage("simulation map: a copy between buffers %u and %u in steps %u..%u", c->inner, c->outer, c->start,
                       c->until);
}
