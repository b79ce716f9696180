"""The order of the steps: every dependence kept, and less memory alive at once than in the graph's own order."""

from pathlib import Path

import pytest
from cases import load_case

from deployer.ir import Program
from deployer.plan import Options
from deployer.stages import fuse, lifetimes, schedule

pytestmark = [pytest.mark.host, pytest.mark.training]
MODELS = ("simple_mlp", "autoencoder", "dscnn", "resnet8")


def live_peak(program: Program, order: list[str]) -> int:
    """Most bytes alive at one node of the training graph; accumulators count from their gradient on."""
    nodes = {n.name: n for n in program.graphs[0].nodes}
    touched = [{program.storage(t) for t in (*nodes[name].inputs, *nodes[name].outputs) if t} for name in order]
    counted = {
        s: program.tensors[s].type.bytes
        for s in set().union(*touched)
        if program.tensors[s].role in ("value", "accumulator")
    }
    stays = {s for s in counted if program.tensors[s].role == "accumulator"} | {
        program.storage(o) for o in program.outputs
    }
    peak = 0
    for at in range(len(order)):
        alive = [s for s in counted if any(s in t for t in touched[: at + 1])]
        alive = [s for s in alive if s in stays or any(s in t for t in touched[at:])]
        peak = max(peak, sum(counted[s] for s in alive))
    return peak


@pytest.mark.parametrize("model", MODELS)
def test_no_more_alive_than_in_graph_order(model: str, models_root: Path) -> None:
    """The chosen order holds no more at once; every node is there once."""
    program = fuse.run(load_case(model, models_root).program, Options())
    chosen = schedule.run(program, Options())
    graph = program.graphs[0]
    order = [s.name for s in chosen.steps if s.graph == graph.name]
    assert sorted(order) == sorted(n.name for n in graph.nodes)
    assert live_peak(program, order) <= live_peak(program, [n.name for n in graph.nodes])
    lifetimes.run(chosen)


def test_residual_network_needs_less(models_root: Path) -> None:
    """A weight's gradient comes before its input's where both wait for the same, so that one image less is alive."""
    program = fuse.run(load_case("resnet8", models_root).program, Options())
    order = [s.name for s in schedule.run(program, Options()).steps if s.graph == "train"]
    assert live_peak(program, order) < 0.9 * live_peak(program, [n.name for n in program.graphs[0].nodes])


@pytest.mark.parametrize("model", MODELS)
def test_what_a_node_overwrites_was_read_before(model: str, models_root: Path) -> None:
    """Reads and writes of one storage keep the order they have in the graph."""
    program = fuse.run(load_case(model, models_root).program, Options())
    position = {s.name: s.index for s in schedule.run(program, Options()).steps}
    for graph in program.graphs:
        for i, first in enumerate(graph.nodes):
            for second in graph.nodes[i + 1 :]:
                reads, writes = ({program.storage(t) for t in names if t} for names in (first.inputs, first.outputs))
                later_reads = {program.storage(t) for t in second.inputs if t}
                later_writes = {program.storage(t) for t in second.outputs if t}
                if writes & (later_reads | later_writes) or reads & later_writes:
                    assert position[first.name] < position[second.name]
