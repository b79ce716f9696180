/* Transfers that begin in one step and end in another, as the map has them. */
#include "hal_host.h"

/* What a map without such transfers means. */
__attribute__((weak)) const hal_sim_cross_step_transfers_t hal_sim_cross_step_transfers = {NULL, 0};

static const hal_sim_cross_step_t *cross_step_end(void) { return hal_sim_cross_step_transfers.list + hal_sim_cross_step_transfers.count; }

const hal_sim_cross_step_t *cross_step_of(uint32_t step, const hal_sim_operand_t *operand, uint32_t inward) {
    for (const hal_sim_cross_step_t *c = hal_sim_cross_step_transfers.list; c < cross_step_end(); c++)
        if (c->step == step && c->inward == inward && &hal_sim.steps[step].operands[c->operand] == operand) return c;
    return NULL;
}

const hal_sim_cross_step_t *cross_step_next(uint32_t at, const hal_sim_cross_step_t *previous) {
    for (const hal_sim_cross_step_t *c = previous ? previous + 1 : hal_sim_cross_step_transfers.list; c < cross_step_end(); c++)
        if (c->inward && c->at == at) return c;
    return NULL;
}

void cross_step_init(void) {
    for (const hal_sim_cross_step_t *c = hal_sim_cross_step_transfers.list; c < cross_step_end(); c++)
        if (c->step >= hal_sim.step_count || c->at >= hal_sim.step_count ||
            c->operand >= hal_sim.steps[c->step].operand_count || (c->inward ? c->at >= c->step : c->at <= c->step))
            host_usage("simulation map: operand %u of step %u has a transfer from or to step %u", c->operand, c->step, c->at);
}
