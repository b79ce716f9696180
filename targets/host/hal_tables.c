/* Argument tables that groups of steps fetch, where the map has such: a group's first step fetches all of its tables, once,
 * into the area that groups share, and each kernel call reads its own from there. */
#include "hal_host.h"

static const hal_sim_buffer_t *fetched; /* the tables in the area, since their first step began; else NULL */

/* The tables of the step's group; NULL where tables are constants that stay where they are. */
static const hal_sim_buffer_t *tables_of(uint32_t step) {
    for (const hal_sim_buffer_t *b = hal_sim.buffers; b < hal_sim.buffers + hal_sim.buffer_count; b++)
        if (b->kind == HAL_SIM_TABLE && b->first <= step && step <= b->last) return b;
    return NULL;
}

void tables_enter(uint32_t step) {
    if (step == HAL_NO_STEP || fetched != tables_of(step) || (fetched && fetched->first == step)) fetched = NULL;
}

void hal_tables(void *tables, const void *source, uint32_t bytes) {
    dma_tick();
    if (host.step == HAL_NO_STEP) host_fail("order", "argument tables are fetched outside of any step");
    const hal_sim_buffer_t *group = tables_of(host.step);
    if (!group) host_fail("tables", "argument tables are fetched where the plan has none to fetch");
    if (fetched || group->first != host.step)
        host_fail("tables", "'%s' are fetched %s, and are to be fetched once, in step %u", group->name,
                  fetched ? "again" : "too late", group->first);
    const uint8_t *wanted = hal_sim.levels[group->level].memory + group->address;
    if (tables != wanted || bytes != group->bytes)
        host_fail("tables", "'%s' are %u B to %s, fetched are %u B to %s", group->name, group->bytes, memory_text(wanted),
                  bytes, memory_text(tables));
    memory_store(tables, source, bytes);
    fetched = group;
}

void tables_check_kernel(const void *args) {
    const hal_sim_buffer_t *group = tables_of(host.step);
    if (!group) return;
    if (fetched != group) host_fail("tables", "kernel call %u runs before '%s' are fetched", host.calls, group->name);
    const uintptr_t first = (uintptr_t)hal_sim.levels[group->level].memory + group->address;
    if ((uintptr_t)args < first || (uintptr_t)args - first >= group->bytes)
        host_fail("tables", "the arguments of kernel call %u are not in '%s': %s", host.calls, group->name, memory_text(args));
}

/* The program has set what passes change in the tables of steps that share a start; each call compares its own. */
void hal_set_tables(const void *args, uint32_t bytes) { guard_accept(args, bytes); }
