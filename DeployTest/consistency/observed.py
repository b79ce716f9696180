"""Observations of what a setting computes of a workload: bytes by kind and place."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from deployer.codegen.harness import segment_input
from deployer.core.ir import Program
from deployer.core.operator import Array
from deployer.core.plan import Options, Plan
from deployer.fitting.engine import evaluated_program
from deployer.fitting.segments import build_segment
from deployer.fitting.task import Task
from deployer.frontend import parse
from deployer.lm.graph import save_model
from deployer.lm.model import TRAINABLE
from deployer.lm.rows import IGNORED
from deployer.operators.loss.label_loss import IGNORED as IGNORED_LABEL
from deployer.running.run import run_segment
from deployer.verify.checked import state_homes
from DeployTest.consistency.settings import WINDOW, Place, Setting, Workload, labels_of, rows_of, words
from DeployTest.consistency.subjects import (
    LABELS,
    LOG_PROBABILITY,
    SCORES,
    SELECTED,
    SELECTED_SCORES,
    SUBJECTS,
    Layout,
    observations,
    subject_model,
    weights,
)

GRADIENT, UPDATED, EVALUATED = "gradient", "updated weight", "log-probability without gradients"
PIECE = WINDOW // 2
"""Passes of one run that only losses are read of: no update falls into them."""
UPDATES = 2
"""Updates after which weights are observed: the second reads what the first left."""
Key = tuple[str, str | int, int]
"""A kind, then a text and a token's number, or a parameter and 0."""
Observed = Mapping[Key, bytes]
State = dict[str, Array]


@dataclass(frozen=True)
class Built:
    """A program with its plan and folder, what it begins with, and its storages' names in the model."""

    program: Program
    plan: Plan
    folder: Path
    start: Mapping[str, Array]

    def run(
        self,
        state: Mapping[str, Array],
        samples: Sequence[Mapping[str, Array]],
        flags: Sequence[str],
        ends: bool = False,
    ) -> bytes:
        """Dump of the program after a pass over each sample; an update `ends` them."""
        rows = [[sample[name] for name in self.program.data] for sample in samples]
        content = segment_input(self.plan, self.program, state, 0, rows, (), ends)
        return run_segment(self.plan, self.folder, content, 0, len(rows) if ends else 0, flags)[0]

    def initial(self) -> State:
        """The state before the first pass."""
        state = {}
        for name in (home.storage for home in state_homes(self.plan)):
            tensor = self.program.tensors[name]
            known = tensor.array if tensor.data is not None else np.zeros(tensor.type.shape, tensor.type.dtype)
            state[name] = self.start.get(name, known)
        return state

    def advanced(
        self, state: State, samples: Sequence[Mapping[str, Array]], flags: Sequence[str], ends: bool = False
    ) -> tuple[State, Array]:
        """The state after passes, and their losses."""
        dump, after = self.run(state, samples, flags, ends), {}
        at = 4 * len(samples)
        for home in state_homes(self.plan):
            kind = self.program.tensors[home.storage].type
            after[home.storage] = np.frombuffer(dump, kind.dtype, kind.size, at).reshape(kind.shape)
            at += kind.bytes
        if at != len(dump):
            raise AssertionError(f"a dump of {len(dump)} B, not of {at} B")
        return after, np.frombuffer(dump[: 4 * len(samples)], np.float32)


@dataclass
class Laboratory:
    """Builds programs, each once, in a folder, and says what they compute."""

    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="consistency-")))
    programs: dict[object, Built] = field(default_factory=dict)
    seen: dict[object, Observed] = field(default_factory=dict)

    def close(self) -> None:
        """Remove what was built."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def observed(self, subject: str, setting: Setting, workload: Workload) -> Observed:
        """All that is observed of a subject."""
        key = id(SUBJECTS[subject]), setting, workload
        if key not in self.seen:
            found: dict[Key, bytes] = {}
            if setting.evaluates:
                found |= self._evaluated(subject, setting, workload)
            if setting.trains:
                found |= self._trained(subject, setting, workload)
            self.seen[key] = found
        return self.seen[key]

    def _evaluated(self, subject: str, setting: Setting, workload: Workload) -> dict[Key, bytes]:
        layout = setting.model_layout(workload)
        built = self._built(subject, layout, setting.options(workload, False), training=False)
        samples: list[dict[str, Array]] = []
        owners: list[dict[int, tuple[int, int]]] = []
        for places in setting.passes(workload):
            for sample, rows in (
                _chunks(places, layout, workload) if layout.chunk else [_whole(places, layout, workload)]
            ):
                samples.append(sample)
                owners.append(rows)
        dump = built.run(built.start, samples, setting.flags)
        kind = built.program.tensors[built.program.outputs[0]].type
        result = np.frombuffer(dump, np.float32).reshape(len(samples), *kind.shape)
        found: dict[Key, bytes] = {}
        for pass_rows, owned in zip(result, owners, strict=True):
            parts = observations(pass_rows)
            if not setting.selects:
                parts[SELECTED_SCORES] = parts[SCORES][:, list(SELECTED)]
            if setting.trains:
                parts[EVALUATED] = parts.pop(LOG_PROBABILITY)
            for row, (text, token) in owned.items():
                found |= {(name, text, token): part[row].tobytes() for name, part in parts.items()}
        return found

    def _trained(self, subject: str, setting: Setting, workload: Workload) -> dict[Key, bytes]:
        layout, flags = setting.model_layout(workload), setting.flags
        built = self._built(subject, layout, setting.options(workload, True), training=True)
        passes = list(setting.passes(workload))
        single, owners = list[Mapping[str, Array]](), list[tuple[int, int]]()
        for places in passes:
            rows = rows_of(places, layout, workload)
            for place in places:
                for token in range(workload.tokens(place.text)):
                    labels = labels_of(places, layout, workload, (place.text, token))
                    single.append({**rows, "labels": labels, "loss_share": np.ones((), np.float32)})
                    owners.append((place.text, token))
        state = built.initial()
        found: dict[Key, bytes] = {}
        for begin in range(0, len(single), PIECE) if not setting.exact else ():
            losses = built.advanced(state, single[begin : begin + PIECE], flags)[1]
            for owner, loss in zip(owners[begin:], losses, strict=False):
                found[LOG_PROBABILITY, *owner] = loss.tobytes()
        update = []
        for places in passes:
            labels = labels_of(places, layout, workload)
            if (labels != IGNORED).any():
                update.append({**rows_of(places, layout, workload), "labels": labels})
        total = sum(int((sample["labels"] != IGNORED).sum()) for sample in update)
        for sample in update:
            sample["loss_share"] = np.array(int((sample["labels"] != IGNORED).sum()) / total, np.float32)
        accumulators = {home.storage for home in built.plan.accumulators}
        if not setting.exact:
            after = built.advanced(state, update, flags)[0]
            found |= {(GRADIENT, name, 0): after[name].tobytes() for name in sorted(accumulators)}
        for _ in range(UPDATES):
            state = built.advanced(state, update, flags, not setting.exact)[0]
        found |= {(UPDATED, name, 0): x.tobytes() for name, x in state.items() if name not in accumulators}
        return found

    def _built(self, subject: str, layout: Layout, options: Options, training: bool) -> Built:
        key = id(SUBJECTS[subject]), layout, options.__repr__(), training
        if key not in self.programs:
            folder = self.folder / f"{len(self.programs)}"
            folder.mkdir(parents=True)
            save_model(subject_model(subject, layout, not training), folder / "model.onnx")
            program, start = _training_program(folder) if training else _evaluation_program(folder)
            self.programs[key] = Built(program, build_segment(program, options, folder / "c"), folder / "c", start)
        return self.programs[key]


def _training_program(folder: Path) -> tuple[Program, Mapping[str, Array]]:
    settings = {IGNORED_LABEL.name: IGNORED}
    task = Task(
        loss="cross_entropy", optimizer="adamw", lr=0.01, trainable=TRAINABLE, accumulate="mean", settings=settings
    )
    problem = task.problem(folder / "model.onnx", 0, lambda warning: None)
    files = folder / "train.onnx", folder / "update.onnx"
    problem.write(*files)
    return problem.program(*files), problem.graph.weights


def _evaluation_program(folder: Path) -> tuple[Program, Mapping[str, Array]]:
    graph = parse.read_graphs(folder / "model.onnx", None).main
    known = {name: array for name, array in weights().items() if name in graph.constants}
    return evaluated_program(graph, list(known)), known


def _whole(
    places: tuple[Place, ...], layout: Layout, workload: Workload
) -> tuple[dict[str, Array], dict[int, tuple[int, int]]]:
    """The inputs of a pass, and the text and token of each row that has one."""
    labels = np.zeros((layout.batch, layout.length), np.int64)
    owners: dict[int, tuple[int, int]] = {}
    for place in places:
        count = workload.tokens(place.text)
        labels[place.row, place.first : place.first + count] = words(place.text)[1][:count]
        begin = place.row * layout.length + place.first
        owners |= {begin + token: (place.text, token) for token in range(count)}
    return {**rows_of(places, layout, workload), LABELS: labels.reshape(-1)}, owners


def _chunks(
    places: tuple[Place, ...], layout: Layout, workload: Workload
) -> list[tuple[dict[str, Array], dict[int, tuple[int, int]]]]:
    """The same, of each chunk of the rows."""
    sample, owners = _whole(places, layout, workload)
    labels, found = sample[LABELS].reshape(layout.batch, -1), []
    for begin in range(0, max(workload.tokens(place.text) for place in places), layout.chunk):
        span = slice(begin, begin + layout.chunk)
        chunk = {"tokens": sample["ids"][:, span], LABELS: labels[:, span].reshape(-1)}
        chunk["begin"] = np.full(layout.batch, begin, np.int32)
        rows = {
            row * layout.chunk + at: owners[row * layout.length + begin + at]
            for row in range(layout.batch)
            for at in range(layout.chunk)
            if row * layout.length + begin + at in owners and begin + at < layout.length
        }
        found.append((chunk, rows))
    return found
