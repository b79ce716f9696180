"""The generated programs of a run: one that trains from a state to a state, one that computes outputs for a state.

A program is started for a stretch of passes, with the state as its input and output. So a run can be left after any
pass, and no process has to be trusted with its memory: a run that is killed has lost the passes since the last
checkpoint, and nothing else.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from deployer.codegen.harness import segment_input
from deployer.core.errors import GraphProblem, RunFailed
from deployer.core.ir import Program
from deployer.core.operator import Array
from deployer.core.plan import Plan
from deployer.frontend import check
from deployer.frontend.dataset import NO_RATES
from deployer.frontend.raw_graph import DeclaredTypes, FileInput, RawGraph, Source
from deployer.running.run import run_segment
from deployer.training.running import evaluation_form
from deployer.verify.checked import state_homes
from deployer.verify.program import verify_program

INPUT_BYTES = 1 << 26
"""Bytes of samples that a stretch is given at most: they are written to a file."""
SECONDS = 0.5
"""About how long a stretch takes: often enough for whoever looks on, and rare enough that starts cost nothing."""

State = Mapping[str, Array]


@dataclass(frozen=True)
class Built:
    """A program that was compiled: its plan, and the folder it lies in."""

    program: Program
    plan: Plan
    folder: Path

    def run(
        self,
        state: State,
        accumulated: int,
        samples: Sequence[Sequence[Array]],
        rates: Sequence[Sequence[float]] = (),
        flushes: bool = False,
    ) -> bytes:
        """The dump of a segment that begins with a state; arguments are those of `segment_input`."""
        content = segment_input(self.plan, self.program, state, accumulated, samples, rates, flushes)
        return run_segment(self.plan, self.folder, content, accumulated, accumulated + len(samples) if flushes else 0)[
            0
        ]


@dataclass(frozen=True)
class Trainer(Built):
    """The training program, rates of its updates by groups where it takes them when it runs, and the groups' own."""

    rates: Array = field(default_factory=lambda: NO_RATES)
    bases: tuple[float, ...] = ()

    def initial(self, weights: State) -> dict[str, Array]:
        """The state before the first pass: these weights, and what the program begins with elsewhere."""
        state = {}
        for home in state_homes(self.plan):
            tensor = self.program.tensors[home.storage]
            known = tensor.array if tensor.data is not None else np.zeros(home.type.shape, home.type.dtype)
            array = weights.get(home.storage, known)
            state[home.storage] = np.array(array, home.type.dtype).reshape(tensor.type.shape)
        return state

    def advance(
        self, state: State, passes: int, samples: Sequence[Sequence[Array]], flushes: bool = False
    ) -> tuple[dict[str, Array], Array]:
        """The state after further passes, one over each of the samples, and their losses; `passes` were made before.

        Where it `flushes`, an update follows the last pass, however many are open.
        A pass whose loss is infinite or no number is the last one.
        """
        updates, accumulated = divmod(passes, self.plan.options.accumulate)
        dump = self.run(state, accumulated, samples, self.rates[updates:].tolist(), flushes)
        kinds = {home.storage: self.program.tensors[home.storage].type for home in state_homes(self.plan)}
        size = sum(kind.bytes for kind in kinds.values())
        losses = np.frombuffer(dump[: len(dump) - size], np.float32)
        if len(losses) > len(samples) or (len(losses) < len(samples) and np.isfinite(losses[-1:]).all()):
            raise RunFailed(f"the program dumped {len(dump)} B after {len(samples)} passes, the state has {size} B")
        at, after = losses.nbytes, {}
        for name, kind in kinds.items():
            after[name] = np.frombuffer(dump, kind.dtype, kind.size, at).reshape(kind.shape)
            at += kind.bytes
        return after, losses


class FitEvaluator(Built):
    """The program that computes the model's output."""

    def outputs(self, weights: State, batches: Sequence[Sequence[Array]]) -> Array:
        """The output for each batch of the model's inputs, batches along the first axis."""
        kind = self.program.tensors[self.program.outputs[0]].type
        each = max(sum(array.nbytes for array in batches[0]), 1)
        count = max(INPUT_BYTES // each, 1)
        dumps = [self.run(weights, 0, batches[i : i + count]) for i in range(0, len(batches), count)]
        return np.frombuffer(b"".join(dumps), kind.dtype).reshape(len(batches), *kind.shape)


class Pace:
    """Choose the passes per segment by the duration of the last ones. Results do not depend on it."""

    def __init__(self, sample_bytes: int) -> None:
        self.most = max(INPUT_BYTES // max(sample_bytes, 1), 1)
        self.passes = 1
        self._began = 0.0

    def begin(self) -> int:
        """The number of passes to make now."""
        self._began = time.perf_counter()
        return self.passes

    def end(self, made: int) -> None:
        """Note that so many were made."""
        each = (time.perf_counter() - self._began) / max(made, 1)
        wanted = int(SECONDS / max(each, SECONDS / self.most))
        self.passes = max(1, min(wanted, 8 * self.passes, self.most))


def evaluated_program(graph: RawGraph, parameters: Sequence[str]) -> Program:
    """The program of a model as it is used once trained, whose `parameters` are weights that come with the run.

    Nothing is dropped, and norms take their running statistics; raises what `evaluation_form` raises.
    """
    missing = [name for name in parameters if name not in graph.constants]
    if missing:
        cause = f"the model that validation runs has no initializer {missing[0]!r}"
        raise GraphProblem(cause, [("missing", ", ".join(missing))], "initializers by the names of the trained model")
    graph = evaluation_form(graph)
    shapes = {name: graph.constants[name] for name in parameters}
    inputs = tuple(FileInput(name, DeclaredTypes(constant.dtype, constant.shape)) for name, constant in shapes.items())
    constants = {name: constant for name, constant in graph.constants.items() if name not in shapes}
    named = {i.name for i in inputs}
    raw = replace(graph, inputs=(*(i for i in graph.inputs if i.name not in named), *inputs), constants=constants)
    program = check.check_program(Source(raw, None), warn=lambda warning: None)
    given = [name for name in program.data if name in shapes]
    tensors = {n: replace(t, role="weight") if n in given else t for n, t in program.tensors.items()}
    weights = tuple(name for name, tensor in tensors.items() if tensor.role == "weight")
    data = tuple(name for name in program.data if name not in shapes)
    program = replace(program, tensors=tensors, data=data, weights=weights)
    verify_program(program)
    return program
