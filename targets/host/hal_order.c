/* The order of steps: those of a graph from its first to its last, and the graphs as the harness is to run them. */
#include "hal_host.h"

static struct {
    uint32_t pass, graph, next; /* what is due: a pass, a graph of it, and a step of that, counted from its first */
} due;

static const hal_sim_graph_t *graph(void) { return &hal_sim.graphs[due.graph]; }
static uint32_t is_over(void) { return due.pass == hal_sim.passes; }
static uint32_t due_step(void) { return due.next < graph()->count ? graph()->first + due.next : HAL_NO_STEP; }

static const char *step_text(uint32_t step) {
    if (step == HAL_NO_STEP) return "HAL_NO_STEP";
    if (step >= hal_sim.step_count) return host_text("%u, of %u in all", step, hal_sim.step_count);
    return host_text("%u '%s'", step, hal_sim.steps[step].name);
}

static const char *due_text(void) {
    if (is_over()) return host_text("the end, after %u passes,", hal_sim.passes);
    const char *where = host_text("graph '%s' in pass %u of %u", graph()->name, due.pass, hal_sim.passes);
    if (due_step() == HAL_NO_STEP) return host_text("HAL_NO_STEP, the end of %s,", where);
    return host_text("step %s of %s", step_text(due_step()), where);
}

static uint32_t is_left_out(void) {
    const uint32_t ended = due.pass + 1, every = graph()->every & ~HAL_SIM_AND_LAST;
    return ended % every && ended != host.flush && !(graph()->every & HAL_SIM_AND_LAST && ended == hal_sim.passes);
}

static void next_graph(void) {
    do {
        if (++due.graph == hal_sim.graph_count) due.graph = 0, due.pass++;
    } while (is_left_out());
    due.next = 0;
}

void order_step(uint32_t step) {
    if (is_over() || step != due_step()) host_fail("order", "hal_step(%s) where %s is due", step_text(step), due_text());
    if (step == HAL_NO_STEP) next_graph();
    else due.next++;
}

/* A run that diverges ends after the pass; whoever counts its passes asks whether it had to. */
void order_exit(void) {
    const uint32_t is_between_passes = due.pass > 0 && due.graph == 0 && due.next == 0;
    if (!is_over() && !is_between_passes) host_fail("order", "the program ends where %s is due", due_text());
}

uint32_t order_pass(void) { return due.pass; }

uint32_t order_resets(void) { return due.pass % hal_sim.accumulate == 0; }

void order_init(void) {
    uint32_t steps = 0;
    for (const hal_sim_graph_t *g = hal_sim.graphs; g < hal_sim.graphs + hal_sim.graph_count; g++) {
        if (g->first != steps || !g->every) host_usage("simulation map: graph '%s' begins at step %u", g->name, g->first);
        steps += g->count;
    }
    if (steps != hal_sim.step_count || !hal_sim.graph_count || hal_sim.graphs[0].every != 1 || !hal_sim.accumulate)
        host_usage("simulation map: %u graphs of %u steps in all", hal_sim.graph_count, steps);
    due.pass = host.accumulated;
}
