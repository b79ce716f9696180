"""Preparation of a fleet: the run folder of its model, the library of a device, its samples, and what validates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from deployer.core.errors import FileProblem, OptionProblem, ToolFailed, ToolMissing, Warn
from deployer.core.ir import Program
from deployer.core.operator import Array
from deployer.core.plan import Options
from deployer.core.target import native
from deployer.firmware.sources import library_rules
from deployer.fitting.checkpoint import CheckpointPlace, checkpoint_bytes
from deployer.fitting.data.sources import read_samples
from deployer.fitting.engine import FitEvaluator, evaluated_program
from deployer.fitting.metrics import Measurements, metrics_of
from deployer.fitting.runs.run_files import (
    CHECKPOINT,
    GRAPHS,
    RunRecord,
    case_of_files,
    example_passes,
    record_files,
)
from deployer.fitting.segments import build_segment
from deployer.fitting.task import Task
from deployer.fleets.device import ENDS, PARTS, FleetRules
from deployer.fleets.splits import Parts
from deployer.frontend import parse
from deployer.frontend.data_numbers import check_classes
from deployer.frontend.graph_inputs import BUFFER_SUFFIX
from deployer.planning.plan_choice import Progress
from deployer.running import output
from deployer.sizing.library_folder import write_library
from deployer.sizing.needs import material
from deployer.sizing.objects import run_tool
from deployer.training.order import Order, Samples
from deployer.training.problem import Problem
from deployer.training.samples import write_npz
from deployer.training.step_problem import read_record
from deployer.training.tables import Request

LIBRARY, NAME, VALIDATION = "library", "fleet", "validation"
"""Folders of the device's library and of the program that validates, and the library's name."""
DATA = "devices.npz"
"""The samples of all devices, for processes that run them; it is there while the fleet runs."""
SUFFIX = ".npz"
Measure = Callable[[Mapping[str, Array]], dict[str, float]]
"""From weights by storage to metrics of the validation samples."""


@dataclass(frozen=True)
class PreparedFleet:
    """A fleet before its first round: the program, first weights by storage, and rates [rounds, groups] if scheduled.

    `original` has the names of weights in the model, `gradients` those of gradients by weight; weights without one are
    running statistics.
    """

    problem: Problem
    program: Program
    weights: dict[str, Array]
    original: dict[str, str]
    gradients: dict[str, str]


def folder_samples(folder: Path, problem: Problem, warn: Warn) -> tuple[Samples, tuple[int, ...]]:
    """Samples of a folder with a file for each device, in the order of their names, and how many each has."""
    paths = sorted(path for path in folder.iterdir() if path.suffix == SUFFIX) if folder.is_dir() else []
    if not paths:
        cause = f"{folder} is not a folder with {SUFFIX} files, one for each device"
        raise FileProblem(cause, hint="--split files with such a folder, or another --split")
    graph = problem.graph
    found = [read_samples(path, graph.sampled, str(path), None, Request(), warn, graph.loss.targets) for path in paths]
    arrays = {name: np.concatenate([each.arrays[name] for each in found]) for name in found[0].arrays}
    return replace(found[0], arrays=arrays, taken=None), tuple(each.count for each in found)


def prepared(
    task: Task,
    problem: Problem,
    samples: Samples,
    accumulate: int,
    origin: Mapping[str, str],
    folder: Path,
    force: bool,
) -> PreparedFleet:
    """Write the run's files, without a checkpoint, and read its program. Raises what reading and checking raise."""
    with output.scratch(folder) as scratch:
        problem.write(*(scratch / name for name in GRAPHS))
        output.write(folder, {name: (scratch / name).read_bytes() for name in GRAPHS}, force)
    program = problem.program(*(folder / name for name in GRAPHS))
    check_classes(program, samples.arrays, "data:", samples.place, from_front=True)
    graph, order = problem.graph, Order(samples.count, samples.batch, shuffled=False)
    record = RunRecord(accumulate, len(program.data), 0, dict(graph.original))
    rows = example_passes(order.passes, accumulate, lambda index: samples.of(order.indices(index)))
    output.write(folder, record_files(record, rows), force)
    weights = {name: np.asarray(array, np.float32) for name, array in graph.weights.items()}
    return PreparedFleet(
        problem, program, weights, dict(graph.original), {name: name + BUFFER_SUFFIX for name in graph.trained}
    )


def build_library(
    made: PreparedFleet, accumulate: int, folder: Path, force: bool, progress: Progress, warn: Warn
) -> Path:
    """Package the device's library, with so many passes per update at most, and build it for this machine; its folder.

    ToolMissing without make or a compiler, ToolFailed where the library does not compile.
    """
    files = {path.name: path.read_bytes() for path in map(folder.joinpath, (*GRAPHS, "run.json", "samples.npz"))}
    files[CHECKPOINT] = checkpoint_bytes(CheckpointPlace(state=made.weights), {})
    case = case_of_files(files, NAME).case
    assert case.dataset is not None
    case = replace(case, dataset=replace(case.dataset, n_accum=accumulate, flush=True))
    place = folder / LIBRARY
    library = material(case, NAME, Options(target=library_rules().target), "", warn, progress)
    progress("library")
    write_library(library, place, compiled=False, force=force, python=True)
    progress("build of the library")
    try:
        run_tool(["make", "-s", "-C", str(place), "shared"])
    except ToolMissing as error:
        raise ToolMissing("make is not installed, which builds the device's library", hint="install make") from error
    except ToolFailed as error:
        raise ToolFailed("the device's library does not build", error.facts, "a C compiler, such as gcc") from error
    return place


def measure_of(
    made: PreparedFleet, task: Task, model: Path, held_out: Samples, folder: Path, force: bool, progress: Progress
) -> Measure:
    """Measure of the model as it is in use, on samples that no device trains on, as `deployer fit` measures."""
    if read_record(model) is not None:
        cause = f"{model} holds a training step, and validation needs the model as it is in use"
        raise OptionProblem(cause, hint="the model's own file, or no --validation")
    graph = made.problem.graph
    check_classes(made.program, held_out.arrays, "the validation set:", held_out.place, from_front=True)
    raw = parse.read_graphs(model, None, task.axes, made.problem.edits.apply).main
    program = evaluated_program(raw, tuple(graph.original.values()))
    place = folder / VALIDATION
    plan = build_segment(program, Options(native().name), place, force, progress)
    evaluator, metrics = FitEvaluator(program, plan, place), metrics_of(graph)

    def measure(weights: Mapping[str, Array]) -> dict[str, float]:
        values = {original: weights[name] for name, original in graph.original.items()}
        found: Measurements = metrics.of(held_out, lambda batches: evaluator.outputs(values, batches))
        return found.values

    return measure


def write_devices(path: Path, samples: Samples, parts: Parts) -> None:
    """Write the file of all devices' samples."""
    ends = np.cumsum([len(part) for part in parts])
    write_npz(path, {**samples.arrays, PARTS: np.concatenate(parts), ENDS: ends})


def passes_of(rules: FleetRules, parts: Parts) -> Sequence[int]:
    """Passes of each device in a round."""
    return [1 if rules.gradients else rules.epochs * Order(len(part), rules.batch).passes for part in parts]
