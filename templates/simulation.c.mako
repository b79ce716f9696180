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
    {"${b.name}", ${b.kind}, ${b.level}, ${b.address}, ${b.bytes}, ${b.parts}, ${b.first}, ${b.last}, ${b.loaded}},
% endfor
};

% for s in v.steps:
static const hal_sim_operand_t operands_${s.index}[] = {
% for o in s.operands:
    {"${o.arg}", offsetof(${s.kernel}_args_t, ${o.arg}), ${o.reads}, ${o.writes}},
% endfor
};
static const hal_sim_cover_t covers_${s.index}[] = {
% for c in s.covers:
    {${c.buffer}, ${c.hop}, ${c.offset}, ${c.bytes}, ${c.read}, ${c.write}},
% endfor
};
static const uint32_t cycles_${s.index}[] = {${s.tile_cycles}};
% endfor

static const hal_sim_step_t steps[] = {
% for s in v.steps:
    {"${s.name}", operands_${s.index}, ${len(s.operands)}, covers_${s.index}, ${s.cover_count}, cycles_${s.index}, ${s.tiles}, ${v.step_cycles}, ${s.contention}},
% endfor
};

static const hal_sim_graph_t graphs[] = {
% for g in v.graphs:
    {"${g.name}", ${g.first}, ${g.count}, ${g.every}},
% endfor
};

const hal_sim_t hal_sim = {levels, ${len(v.levels)}, hops, buffers, ${len(v.buffers)}, steps, ${len(v.steps)}, graphs, ${len(v.graphs)}, ${v.passes}, ${v.accumulate}, ${v.cores}};
