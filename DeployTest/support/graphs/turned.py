"""Cases with a unit at its border, and float32 runs of them in numpy, right ones and ones with planted faults."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deployer import pipeline
from deployer.core.ir import Node
from deployer.pipeline import Case
from deployer.training.train_graph import build_train_graph
from deployer.verify.checks import Judge
from deployer.verify.reference import Memory, initial_memory, run_pass
from deployer.verify.same_state import Recorded, recorded_passes
from deployer.verify.tolerances import TOLERANCES
from DeployTest.support.graphs.small_graphs import Model, constant, node, value

Array = np.ndarray[Any, Any]
UNIT = 3
"""The hidden unit whose sum for the first sample is rounding and nothing else."""
DEPTH, HIDDEN = 256, 16
PASSES = 4


GATE = "gate"
"""The name of the node that decides by the sum."""


def at_border(folder: Path, seed: int, gate: str = "Relu") -> Path:
    """A layer of 16 units, a Relu and a layer of 4; the bias of one unit cancels its sum. The *_train folder.

    `gate` is another operator with its border at 0 instead of the Relu.
    """
    draw = np.random.default_rng(seed)
    x = draw.uniform(0.5, 1.5, (PASSES, 1, DEPTH)).astype(np.float32)
    w1 = (draw.standard_normal((HIDDEN, DEPTH)) / np.sqrt(DEPTH)).astype(np.float32)
    w1[UNIT] = np.abs(w1[UNIT])
    w2, b1 = (draw.standard_normal(shape).astype(np.float32) for shape in ((4, HIDDEN), (HIDDEN,)))
    b1[UNIT] = -(x[0, 0].astype(np.float64) @ w1[UNIT].astype(np.float64))
    nodes = (
        node("Gemm", ("x", "w1", "b1"), ("h",), "first", transB=1),
        node(gate, ("h",), ("r",), GATE),
        node("Gemm", ("r", "w2"), ("y",), "last", transB=1),
    )
    weights = [constant("w1", w1), constant("b1", b1), constant("w2", w2)]
    model = Model(nodes, (value("x", (1, DEPTH)),), (value("y", (1, 4)),), weights)
    path = model.save(folder / "border.onnx")
    data = {"x": x, "target": draw.standard_normal((PASSES, 1, 4)).astype(np.float32)}
    return build_train_graph(path, "mse", "sgd", 1e-3, "", folder, data=data, n_batches=PASSES).train


Hook = Callable[[int, Node, Memory], None]
"""Called with the pass, a node, and the memory beside it."""


def recorded_run(case: Case, before: Hook = lambda *_: None, after: Hook = lambda *_: None) -> Recorded:
    """A float32 run in numpy, as a program would have dumped it; what is called may change the memory."""
    program, dataset = case.program, case.dataset
    assert dataset is not None
    memory = initial_memory(program, dataset, np.float32)
    changed = {program.storage(name) for node in program.nodes for name in node.outputs if name}
    names = [name for name in program.weights if program.storage(name) in changed]
    names += program.accumulators if dataset.n_accum > 1 else ()
    states, losses = {}, []
    for index in range(dataset.n_batches):
        states[index] = {name: memory[name].copy() for name in names}

        def around(node: Node, memory: Memory, index: int = index) -> None:
            before(index, node, memory)

        def done(node: Node, results: object, index: int = index) -> None:
            after(index, node, memory)

        losses.append(run_pass(program, dataset, memory, index, done, around))
    return Recorded(states, {name: memory[name].copy() for name in names}, tuple(losses))


@dataclass
class Run:
    """A float32 run in numpy: `shift` moves the operand of the Relu at the border, `fault` changes results of nodes."""

    case: Case
    shift: float = 0.0
    fault: Hook = lambda index, node, memory: None

    def recorded(self) -> Recorded:
        """Dump that a program would have made."""

        def before(index: int, node: Node, memory: Memory) -> None:
            if node.name == GATE and index == 0 and self.shift:
                moved = memory[node.inputs[0]].copy()
                moved[0, UNIT] = self.shift
                memory[node.inputs[0]] = moved

        return recorded_run(self.case, before, self.fault)

    def judge(self) -> Judge:
        """The judge of all passes."""
        program, dataset = self.case.program, self.case.dataset
        assert dataset is not None
        passes = recorded_passes(program, dataset, self.recorded(), dataset.n_batches)
        return Judge(program, dataset, TOLERANCES.loss, passes)


def border_value(case: Case) -> float:
    """The operand of the Relu at the border, in float64."""
    dataset, seen = case.dataset, []
    assert dataset is not None

    def look(node: Node, memory: Memory) -> None:
        if node.name == GATE:
            seen.append(float(memory[node.inputs[0]][0, UNIT]))

    run_pass(case.program, dataset, initial_memory(case.program, dataset), 0, before=look)
    return seen[0]


def turned_value(case: Case) -> float:
    """The same on the other side of the border."""
    return -border_value(case)


def opened_border(folder: Path, seed: int, gate: str = "Relu") -> Case:
    """A case at its border."""
    return pipeline.load_training(at_border(folder, seed, gate))
