"""Forward model to training case: both ONNX graphs, the samples, and their float64 reference."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from deployer.core.errors import DatasetMismatch, OptionProblem, Warn, python_warning
from deployer.core.ir import FROZEN, Program, TensorRecord
from deployer.core.operator import Array
from deployer.core.safe_text import one_line
from deployer.frontend.data_numbers import check_finite
from deployer.frontend.dataset import (
    MARK,
    Dataset,
    check_passes,
    check_sample_classes,
    check_samples,
    gold_mark,
    with_shares,
)
from deployer.frontend.prepare import NO_AXES, Axes
from deployer.lr_schedules.lr_schedule import LrSchedule
from deployer.running import output
from deployer.training import samples as numbers
from deployer.training.attached_loss import class_counts, target_bounds
from deployer.training.forward import Forward
from deployer.training.groups import ParameterGroup
from deployer.training.problem import NO_LIMITS, TrainGraph, pose_problem
from deployer.training.settings import Given
from deployer.training.tables import Taken, check_column
from deployer.training.tensors.decisions import records, told
from deployer.training.tensors.selection import Expected
from deployer.training.update_graph import Limits
from deployer.verify.reference import with_oracle

DRAWN = 4
"""Default number of random samples."""
GRAPH, INPUTS, OUTPUTS = "network.onnx", "inputs.npz", "outputs.npz"


@dataclass(frozen=True)
class CaseReport:
    """Result of a call: folders, trained parameters (name in the graph -> in the model), and frozen ones.

    `tensors` has the role of every float tensor of the model.

    `losses` is the gold of each forward pass, `dropout` says what is dropped, if the model has what drops. `running`
    are running statistics that are renewed, as `trained` has parameters. `drawn` are the model's names of parameters
    whose initial values were drawn, `data` says what of given samples was taken, and `classes` names the labels of a
    table of words.
    """

    train: Path
    optimizer: Path
    trained: dict[str, str]
    frozen: tuple[str, ...]
    forward_nodes: int
    backward_nodes: int
    losses: tuple[float, ...]
    dropout: str = ""
    running: dict[str, str] = field(default_factory=dict)
    drawn: tuple[str, ...] = ()
    data: Taken | None = None
    classes: tuple[str, ...] = ()
    tensors: tuple[TensorRecord, ...] = ()

    def __str__(self) -> str:
        """A few lines for a person."""
        lines = [
            f"{one_line(str(self.train))}: {self.forward_nodes} forward and {self.backward_nodes} backward nodes",
            *told(self.tensors),
            f"loss: {self.losses[0]:.6g} -> {self.losses[-1]:.6g} in {len(self.losses)} passes",
        ]
        lines += self.data.lines("data", self.classes) if self.data else []
        lines += [f"drawn: {', '.join(map(one_line, self.drawn))}"] if self.drawn else []
        return "\n".join([*lines, *([f"dropout: {self.dropout}"] if self.dropout else [])])


def build_train_graph(
    model: Path,
    loss: str,
    optimizer: str,
    learning_rate: float,
    trainable: str,
    out: Path,
    *,
    name: str = "",
    samples: int = DRAWN,
    n_accum: int = 1,
    n_batches: int | None = None,
    seed: int | None = None,
    data: Path | Mapping[str, Array] | None = None,
    target_column: str = "",
    force: bool = False,
    settings: Given | None = None,
    class_weights: Sequence[float] = (),
    groups: Sequence[ParameterGroup] = (),
    limits: Limits = NO_LIMITS,
    dropout: bool = True,
    axes: Axes = NO_AXES,
    statistics: bool = False,
    lr_schedule: LrSchedule | None = None,
    free_rates: bool = False,
    mean: bool = False,
    flush: bool = False,
    expected: Expected = (),
    initial: str = "",
    warn: Warn = python_warning,
) -> CaseReport:
    """Write folders `<name>_train` and `<name>_optimizer` to `out`; an empty `name` is the model file's stem.

    `loss` and `optimizer` are what operators declare as their choice, an empty optimizer the usual one; loss OWN_LOSS
    is the model's output itself. `trainable` and `expected` are as `tensors.selection.select` has them. `data` and
    `target_column`, as `read_samples` has them, replace the `samples` drawn from `seed`, by default 0. `n_batches` is
    the number of forward passes, by default the fewest that see every sample and end with an update. `force` overwrites
    files in those folders that no earlier call wrote, or that changed since; a failure leaves no partial case.
    `settings` are numbers that loss and optimizer declare, `groups` what is different for some parameters, `limits`
    bound gradients. With a `lr_schedule` the case has the rates of all updates, and its program takes them when it
    runs; `free_rates` are any finite ones. An update takes the sum over its passes, or the `mean`: the gradient of the
    loss of their samples joined to one batch. With `flush` passes that are left at the end have an update of their own.
    Masks of dropout follow from `seed`, too, unless a node has its own; without `dropout` nothing is dropped. With the
    name of an `initial` rule weights are drawn from `seed`, as `with_initial` has it. `axes` are lengths that the model
    leaves open. With `statistics` running ones are renewed in each pass, as PyTorch defines them. `warn` gets a warning
    for each harmless oddity of the model, also for parameters that the module is `expected` to have, by their names,
    and the file lacks; with their numbers, by name, exactly these are trained. Raises OptionProblem, FileProblem,
    GraphProblem, UnsupportedOperator, ShapeMismatch, NotDifferentiable, DatasetMismatch.
    """
    _check_counts(samples, n_accum, n_batches, flush)
    problem = pose_problem(
        model,
        loss,
        optimizer,
        learning_rate,
        trainable,
        settings,
        class_weights,
        groups,
        limits,
        free_rates=free_rates,
        seed=seed or 0,
        dropout=dropout,
        axes=axes,
        statistics=statistics,
        mean=mean,
        expected=expected,
        initial=initial,
        warn=warn,
    )
    source, case = problem.source, problem.graph
    if data is not None and seed is not None and not (initial or (dropout and source.draws.drawing)):
        raise OptionProblem("--seed has no effect here", hint="--data gives the samples; leave one of them out")
    folder, update = (out / f"{name or model.stem}_{kind}" for kind in ("train", "optimizer"))
    if data is None:
        check_column(target_column)
    given = None if data is None else numbers.read_samples(case.sampled, data, warn, target_column, case.loss.targets)
    drawn = _draw_samples(case, samples, seed or 0) if given is None else given.passes
    sample_arrays = tuple({**sample, **dict.fromkeys(case.share, np.ones((), np.float32))} for sample in drawn)
    each = 1 if flush else n_accum
    batches = n_batches or each * math.ceil(len(sample_arrays) / each)
    check_passes(case.data.values(), batches)
    dataset = replace(numbers.as_dataset(sample_arrays, case.weights, batches, n_accum), flush=flush)
    with output.opened(folder, (GRAPH, INPUTS, OUTPUTS), force), output.opened(update, (GRAPH,), force):
        with output.scratch(folder) as place:
            train, step = (place / f"case_{kind}" / GRAPH for kind in ("train", "optimizer"))
            problem.write(train, step)
            program = problem.program(train, step)
            origin = str(data) if isinstance(data, Path) else "data"
            check_sample_classes(program, dataset.samples, origin, given.place if given else None, from_front=True)
            if lr_schedule is not None:
                program, rates, _ = problem.rated(program, lr_schedule, dataset.updates)
                dataset = replace(dataset, rates=rates)
            if case.share:
                dataset = with_shares(dataset, program, len(case.data), "data")
            dataset = _gold(case, program, dataset)
            graphs = train.read_bytes(), step.read_bytes()
        gold = np.array(dataset.expected_losses, np.float32)
        inputs = numbers.npz_bytes(numbers.input_arrays(sample_arrays, dataset))
        results = {**dataset.expected_weights, "loss": gold}
        outputs = numbers.npz_bytes({MARK: np.array([gold_mark(results)], np.int64), **results})
        output.write(update, {GRAPH: graphs[1]})
        output.write(folder, {GRAPH: graphs[0], INPUTS: inputs, OUTPUTS: outputs})
    tensors = records(problem.tensors)
    frozen = tuple(record.name for record in tensors if record.role == FROZEN)
    counts = len(case.model.raw.nodes) + len(case.loss.nodes), len(case.backward.nodes)
    dropped = _dropout(source, seed or 0, dropout)
    losses = tuple(map(float, gold))
    states, names = dict(case.states), problem.drawn
    report = CaseReport(folder, update, case.trained, frozen, *counts, losses, dropped, states, names, tensors=tensors)
    return replace(report, data=given.taken, classes=given.classes) if given else report


def _dropout(model: Forward, seed: int, on: bool) -> str:
    """Describe the handling of nodes that may draw random numbers; empty if the model has none."""
    drawing, idle = ([one_line(node.name) for node in nodes] for nodes in (model.draws.drawing, model.draws.idle))
    notes = [f"left out of {', '.join(drawing)}, as asked" if not on else f"of {', '.join(drawing)}, from seed {seed}"]
    notes = notes if drawing else []
    notes += [f"none of {', '.join(idle)}, which the model has in inference form"] if idle else []
    return "; ".join(notes)


def _check_counts(samples: int, n_accum: int, n_batches: int | None, flush: bool) -> None:
    least = 1 if flush else n_accum
    if samples < 1 or n_accum < 1 or (n_batches is not None and n_batches < least):
        raise OptionProblem(
            "the run makes no update",
            [("samples", str(samples)), ("passes", str(n_batches)), ("per update", str(n_accum))],
            "at least one sample, and at least as many passes as there are per update",
        )


def _draw_samples(case: TrainGraph, count: int, seed: int) -> numbers.Passes:
    check_samples(case.sampled.values(), count)
    nodes = (*case.model.raw.nodes, *case.loss.nodes)
    ends = numbers.index_ends(case.state.nodes, case.state.types, case.state.root)
    ends |= class_counts(nodes, case.state.types)
    return numbers.draw(case.sampled, ends, count, seed, target_bounds(nodes))


def _gold(case: TrainGraph, program: Program, dataset: Dataset) -> Dataset:
    """The dataset with the results of a float64 run as expected ones.

    Raises DatasetMismatch for a run that diverges, which is one whose losses or weights float32 does not hold.
    """
    with np.errstate(all="ignore"):
        gold = with_oracle(program, dataset)
        wild = [k for k, loss in enumerate(gold.expected_losses) if not np.isfinite(np.float32(loss))]
    wild += [] if all(np.isfinite(w).all() for w in gold.expected_weights.values()) else [dataset.n_batches]
    if wild:
        for name, constant in case.model.raw.constants.items():
            check_finite(constant.array, f"the run diverges in pass {wild[0]}, and the constant {name!r}")
        raise DatasetMismatch(
            f"the run diverges in pass {wild[0]}",
            [("losses", ", ".join(f"{v:.4g}" for v in gold.expected_losses[:6]))],
            "a smaller learning rate, or smaller inputs",
        )
    return gold
