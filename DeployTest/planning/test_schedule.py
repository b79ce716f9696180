"""The order of the steps: it respects all dependences, and fewer bytes are alive at once than in graph order."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deployer.core.ir import Program
from deployer.core.plan import Options
from deployer.frontend.dataset import load
from deployer.planning import fuse, lifetimes, schedule
from deployer.verify.reference import run_training
from DeployTest.support.building.cases import load_case
from DeployTest.support.graphs.small_graphs import BOOL, BUFFER, TRAIN, Case, Model, constant, node, value, with_nodes

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
    """The schedule has each node once, and its peak of live bytes is not above that of the graph order."""
    program = fuse.fuse_program(load_case(model, models_root).program, Options())
    plan = schedule.make_schedule(program, Options())
    graph = program.graphs[0]
    order = [s.name for s in plan.steps if s.graph == graph.name]
    assert sorted(order) == sorted(n.name for n in graph.nodes)
    assert live_peak(program, order) <= live_peak(program, [n.name for n in graph.nodes])
    lifetimes.find_lifetimes(plan)


def test_residual_network_needs_less(models_root: Path) -> None:
    """If the gradients of a weight and of its layer's input are ready, the weight's runs first, saving an image."""
    program = fuse.fuse_program(load_case("resnet8", models_root).program, Options())
    order = [s.name for s in schedule.make_schedule(program, Options()).steps if s.graph == "train"]
    assert live_peak(program, order) < 0.9 * live_peak(program, [n.name for n in program.graphs[0].nodes])


def test_every_step_leaves_least_alive(models_root: Path) -> None:
    """In a greedy schedule, no other ready step leaves fewer bytes alive than the next one."""
    program = fuse.fuse_program(load_case("resnet8", models_root).program, Options())
    nodes = program.graphs[0].nodes
    order = [s.name for s in schedule.make_schedule(program, Options()).steps if s.graph == program.graphs[0].name]
    steps = {n.name: frozenset(program.storage(t) for t in (*n.inputs, *n.outputs) if t) for n in nodes}
    waits = dependences(program)
    for at, step in enumerate(order):
        done = set(order[:at])
        ready = [name for name in order[at:] if waits[name] <= done]
        assert step in ready
        sizes = {name: alive_after(program, steps, done | {name}) for name in ready}
        assert sizes[step] == min(sizes.values()), (at, step, sizes)


def dependences(program: Program) -> dict[str, set[str]]:
    """For each node of the training graph, the earlier nodes that must run before it."""
    waits: dict[str, set[str]] = {}
    earlier: list[tuple[str, set[str], set[str]]] = []
    for n in program.graphs[0].nodes:
        reads, writes = ({program.storage(t) for t in names if t} for names in (n.inputs, n.outputs))
        waits[n.name] = {name for name, r, w in earlier if w & (reads | writes) or r & writes}
        earlier.append((n.name, reads, writes))
    return waits


def alive_after(program: Program, steps: Mapping[str, frozenset[str]], done: set[str]) -> int:
    """Bytes alive after these steps: those that other steps use or that outlive the graph."""
    tensors = program.tensors
    outlives = {s for s in tensors if tensors[s].role == "accumulator"} | {program.storage(o) for o in program.outputs}
    later = frozenset().union(*(touched for name, touched in steps.items() if name not in done))
    storages = frozenset().union(*(steps[name] for name in done))
    counted = {s for s in storages & (later | outlives) if tensors[s].role in ("value", "accumulator")}
    return sum(tensors[s].type.bytes for s in counted)


@pytest.mark.parametrize("model", MODELS)
def test_what_a_node_overwrites_was_read_before(model: str, models_root: Path) -> None:
    """Reads and writes of one storage keep their order in the graph, unless both are reads."""
    program = fuse.fuse_program(load_case(model, models_root).program, Options())
    position = {s.name: s.index for s in schedule.make_schedule(program, Options()).steps}
    for graph in program.graphs:
        for i, first in enumerate(graph.nodes):
            for second in graph.nodes[i + 1 :]:
                reads, writes = ({program.storage(t) for t in names if t} for names in (first.inputs, first.outputs))
                later_reads = {program.storage(t) for t in second.inputs if t}
                later_writes = {program.storage(t) for t in second.outputs if t}
                if writes & (later_reads | later_writes) or reads & later_writes:
                    assert position[first.name] < position[second.name]


def two_weights() -> Case:
    """A layer with a bias, whose step depends on the other weight's old value: a big value of each, and a sum of it."""
    bias = "b_grad.accumulation.buffer"
    train = with_nodes(
        TRAIN,
        node("ReduceSum", ("y_grad", "rows"), ("b_grad",), keepdims=0),
        node("InPlaceAccumulatorV2", (bias, "b_grad", "lazy_reset_grad"), ("b_out",), domain="com.microsoft"),
        inputs=(*TRAIN.inputs[:3], value("b", (4,)), TRAIN.inputs[3], value(bias, (4,)), TRAIN.inputs[4]),
        outputs=(*TRAIN.outputs, value("b_out", (1,), BOOL)),
        initializers=(constant("rows", np.array([0], np.int64)),),
    )
    train = replace(train, nodes=(node("Gemm", ("x", "w", "b"), ("y",), "fc", transB=1), *train.nodes[1:]))
    optimizer = Model(
        nodes=(
            node("Mul", ("w", "w"), ("w_squares",)),
            node("Mul", (BUFFER, BUFFER), ("g_squares",)),
            node("ReduceSum", ("w_squares",), ("w_sum",), keepdims=0),
            node("ReduceSum", ("g_squares",), ("g_sum",), keepdims=0),
            node("Add", ("w_sum", "g_sum"), ("scale",)),
            node("Mul", (bias, "scale"), ("b_scaled",)),
            node("SGD", ("b", "b_scaled"), ("b_updated",), lr=0.01),
            node("SGD", ("w", BUFFER), ("w_updated",), lr=0.25),
        ),
        inputs=(value("w", (4, 3)), value("b", (4,)), value(BUFFER, (4, 3)), value(bias, (4,))),
        outputs=(value("w_updated", (4, 3)), value("b_updated", (4,))),
    )
    arrays = {"arr_0003": np.ones(4, np.float32), "arr_0004": np.array([True])}
    return Case(train, optimizer, arrays=arrays, gold={"b": np.zeros(4, np.float32)})


def test_old_value_is_read_before_it_is_overwritten(tmp_path: Path) -> None:
    """A step waits for the readers of the storage that it overwrites, so the weights equal those of the graph order."""
    program = two_weights().program(tmp_path)
    data = load(two_weights().dataset(tmp_path), program)
    steps = schedule.make_schedule(program, Options(accumulate=data.n_accum)).steps
    graphs = tuple(replace(g, nodes=tuple(s.node for s in steps if s.graph == g.name)) for g in program.graphs)
    order = [s.name for s in steps if s.graph == "optimizer"]
    assert order != [n.name for n in program.graphs[1].nodes], "the graph's own order tells nothing"
    assert order.index("Mul_w_squares") < order.index("SGD_w_updated")
    _, expected = run_training(program, data, np.float64)
    _, weights = run_training(replace(program, graphs=graphs), data, np.float64)
    assert all(np.array_equal(weights[name], expected[name]) for name in expected)
