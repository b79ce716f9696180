/* ${v.provenance} */
#include "hal_sim.h"
#include "Network.h"
#include <stddef.h>
% for kernel in v.kernels:
#include "${kernel}.h"
% endfor

% for level in v.levels:
_Alignas(64) uint8_t ${level.array}[${level.bytes}];
% endfor

static const hal_sim_level_t levels[] = {
% for level in v.levels:
    {"${level.name}", ${level.array}, ${level.bytes}},
% endfor
};

static const hal_sim_hop_t hops[] = {
% for hop in v.hops:
    {{${hop.inward}}, {${hop.outward}}, ${hop.issue}, ${hop.wait}, ${hop.shared}},
% endfor
};

static const hal_sim_buffer_t buffers[] = {
% for b in v.buffers:
    {"${b.name}", ${b.kind}, ${b.level}, ${b.address}, ${b.bytes}, ${b.blocks}, ${b.first}, ${b.last}, ${b.loaded}},
% endfor
};

% for t in v.tables:
static const ${t.type} ${t.name}[] = {
% for line in t.lines:
    ${line}
% endfor
};
% endfor

static const hal_sim_step_t steps[] = {
% for s in v.steps:
    {"${s.name}", ${s.dims}, ${s.stage_order}, ${s.dim_count}, ${s.operands}, ${s.operand_count}, ${s.scalars}, ${s.scalar_count}, ${s.tile_cycles}, ${s.tiles}, ${s.cycles}, ${s.contention}},
% endfor
};

static const hal_sim_graph_t graphs[] = {
% for g in v.graphs:
    {"${g.name}", ${g.first}, ${g.count}, ${g.every}},
% endfor
};

% for cross_step_transfers in v.cross_step_transfers:
static const hal_sim_cross_step_t transfers[] = {
% for c in cross_step_transfers:
    {${c.step}, ${c.operand}, ${c.inward}, ${c.at}},
% endfor
};
const hal_sim_cross_step_transfers_t hal_sim_cross_step_transfers = {transfers, ${len(cross_step_transfers)}};

% endfor
% for copies in v.copies:
static const hal_sim_copy_t copies[] = {
% for c in copies:
    {${c.inner}, ${c.outer}, ${c.inward}, ${c.start}, ${c.until}},
% endfor
};
const hal_sim_copies_t hal_sim_copies = {copies, ${len(copies)}};

% endfor
const hal_sim_t hal_sim = {levels, ${len(v.levels)}, hops, buffers, ${len(v.buffers)}, steps, ${len(v.steps)}, graphs, ${len(v.graphs)}, ${v.passes}, ${v.accumulate}, ${v.cores}};
