"""From a forward model to a training case: both ONNX graphs, the samples, and their float64 gold."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deployer.core.errors import DatasetMismatch, OptionProblem, Warn, python_warning
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, losses, operator_of, optimizers, usual_accumulator
from deployer.core.safe_text import one_line, parameter_name
from deployer.frontend import check, parse
from deployer.frontend.data_numbers import check_finite
from deployer.frontend.dataset import MARK, Dataset, check_passes, check_sample_classes, check_samples, gold_mark
from deployer.frontend.graph_inputs import BUFFER_SUFFIX
from deployer.frontend.resolve import Resolved
from deployer.running import output
from deployer.training import forward
from deployer.training import samples as numbers
from deployer.training.attached_loss import (
    AttachedLoss,
    Choice,
    attach,
    check_added_names,
    class_counts,
    first_gradient,
    loss_choices,
    target_bounds,
)
from deployer.training.autodiff import Backward, Names, differentiate
from deployer.training.forward import Forward
from deployer.training.groups import Group, Rule, check_rate, trained_parameters
from deployer.training.groups import rules as update_rules
from deployer.training.onnx_writer import (
    OnnxGraph,
    flag_value,
    float_value,
    node_proto,
    value,
)
from deployer.training.settings import Given, split_settings, with_settings
from deployer.training.update_graph import Limits, write_optimizer
from deployer.verify.program import verify_program
from deployer.verify.reference import with_oracle

FLAG = "lazy_reset_grad"
DRAWN = 4
"""Default number of random samples."""
NO_LIMITS = Limits()
GRAPH, INPUTS, OUTPUTS = "network.onnx", "inputs.npz", "outputs.npz"


@dataclass(frozen=True)
class Report:
    """The result of a call: folders, trained parameters (name in the graph -> in the model), frozen initializers.

    `losses` is the gold of each forward pass.
    """

    train: Path
    optimizer: Path
    trained: dict[str, str]
    frozen: tuple[str, ...]
    forward_nodes: int
    backward_nodes: int
    losses: tuple[float, ...]

    def __str__(self) -> str:
        """A few lines for a person."""
        lines = [
            f"{one_line(str(self.train))}: {self.forward_nodes} forward and {self.backward_nodes} backward nodes",
            f"trained: {', '.join(map(one_line, self.trained))}",
            f"frozen: {', '.join(map(one_line, self.frozen)) or 'none'}",
            f"loss: {self.losses[0]:.6g} -> {self.losses[-1]:.6g} in {len(self.losses)} passes",
        ]
        return "\n".join(lines)


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
    seed: int = 0,
    data: Path | Mapping[str, Array] | None = None,
    force: bool = False,
    settings: Given | None = None,
    class_weights: Sequence[float] = (),
    groups: Sequence[Group] = (),
    limits: Limits = NO_LIMITS,
    warn: Warn = python_warning,
) -> Report:
    """Write folders `<name>_train` and `<name>_optimizer` to `out`; an empty `name` is the model file's stem.

    `loss` and `optimizer` are what operators declare as their choice, an empty optimizer the usual one; loss OWN_LOSS
    is the model's output itself. `trainable` is as `forward.choose_parameters` has it.
    `data`, as `samples.read_samples` has it, replaces the `samples` drawn from `seed`. `n_batches` is the number of
    forward passes, by default the fewest that see every sample and end with an update. `force` overwrites files in
    those folders that no earlier call wrote, or that changed since; a failure leaves no partial case. `settings` are
    numbers that loss and optimizer declare, `groups` what is different for some parameters, `limits` bound gradients.
    `warn` gets a warning for each harmless oddity of the model.
    Raises OptionProblem, FileProblem, GraphProblem, UnsupportedOperator, ShapeMismatch, NotDifferentiable,
    DatasetMismatch.
    """
    _check_counts(samples, n_accum, n_batches)
    problem = pose_problem(
        model, loss, optimizer, learning_rate, trainable, settings, class_weights, groups, limits, warn
    )
    source, case = problem.source, problem.graph
    folder, update = (out / f"{name or model.stem}_{part}" for part in ("train", "optimizer"))
    sample_arrays = numbers.read_samples(case.data, data) if data is not None else _draw_samples(case, samples, seed)
    batches = n_batches or n_accum * math.ceil(len(sample_arrays) / n_accum)
    check_passes(case.data.values(), batches)
    dataset = numbers.as_dataset(sample_arrays, case.weights, batches, n_accum)
    with output.opened(folder, (GRAPH, INPUTS, OUTPUTS), force), output.opened(update, (GRAPH,), force):
        with output.scratch(folder) as place:
            train, step = (place / f"case_{part}" / GRAPH for part in ("train", "optimizer"))
            problem.write(train, step)
            dataset = _gold(case, train.parent, dataset, str(data) if isinstance(data, Path) else "data")
            graphs = train.read_bytes(), step.read_bytes()
        gold = np.array(dataset.expected_losses, np.float32)
        inputs = numbers.npz_bytes(numbers.input_arrays(sample_arrays, case.weights, batches, n_accum))
        results = {**dataset.expected_weights, "loss": gold}
        outputs = numbers.npz_bytes({MARK: np.array([gold_mark(results)], np.int64), **results})
        output.write(update, {GRAPH: graphs[1]})
        output.write(folder, {GRAPH: graphs[0], INPUTS: inputs, OUTPUTS: outputs})
    frozen = tuple(n for n in source.initializers if n in source.raw.constants and n not in case.trained.values())
    counts = len(case.model.raw.nodes) + len(case.loss.nodes), len(case.backward.nodes)
    return Report(folder, update, case.trained, frozen, *counts, tuple(map(float, gold)))


@dataclass(frozen=True)
class TrainGraph:
    """The parts of a training graph, before the files exist.

    `data` are the data inputs, labels or target last; `trained` maps each parameter to its name in the model.
    """

    model: Forward
    loss: AttachedLoss
    data: dict[str, TensorType]
    trained: dict[str, str]
    state: Resolved
    backward: Backward

    @property
    def weights(self) -> dict[str, Array]:
        """Initial values of the parameters."""
        return {n: self.model.raw.constants[n].array for n in self.trained}

    @property
    def types(self) -> dict[str, TensorType]:
        """Types of the parameters."""
        return {n: self.state.types[n] for n in self.trained}


@dataclass(frozen=True)
class Problem:
    """A training problem without samples: the model, its training graph, the update of each parameter, and limits."""

    source: Forward
    graph: TrainGraph
    rules: dict[str, Rule]
    limits: Limits

    def write(self, train: Path, optimizer: Path) -> None:
        """Write both graphs."""
        case = self.graph
        write_train(case, train)
        write_optimizer(case.types, {*case.data, FLAG}, self.rules, self.limits, case.model.opset, optimizer)


def pose_problem(
    model: Path,
    loss: str,
    optimizer: str,
    learning_rate: float,
    trainable: str = "",
    settings: Given | None = None,
    class_weights: Sequence[float] = (),
    groups: Sequence[Group] = (),
    limits: Limits = NO_LIMITS,
    warn: Warn = python_warning,
) -> Problem:
    """The training problem of a forward model; arguments and errors are those of `build_train_graph`."""
    optimizer = optimizer or next(iter(optimizers()))
    for kind, name, names in (("loss", loss, loss_choices()), ("optimizer", optimizer, optimizers())):
        if name not in names:
            raise OptionProblem(f"there is no {kind} {name!r}", hint=f"one of {', '.join(names)}")
    check_rate(learning_rate)
    attributes, own = split_settings(settings or {}, losses().get(loss))
    choice = Choice(losses().get(loss), attributes, tuple(class_weights))
    with_settings(optimizer, own)
    source = forward.load(model)
    parameters = trained_parameters(forward.choose_parameters(source, trainable), groups)
    case = _make_train_graph(source, choice, parameters, warn)
    rules = update_rules(case.trained, optimizer, learning_rate, own, groups)
    for warning in case.state.warnings.values():
        warn(warning)
    for weight, array in case.weights.items():
        check_finite(array, f"{model}: the initial weight {case.trained[weight]!r}")
    return Problem(source, case, rules, limits)


def _check_counts(samples: int, n_accum: int, n_batches: int | None) -> None:
    if samples < 1 or n_accum < 1 or (n_batches is not None and n_batches < n_accum):
        raise OptionProblem(
            "the run makes no update",
            [("samples", str(samples)), ("passes", str(n_batches)), ("per update", str(n_accum))],
            "at least one sample, and at least as many passes as there are per update",
        )


def _make_train_graph(source: Forward, choice: Choice, parameters: tuple[str, ...], warn: Warn) -> TrainGraph:
    names = Names({n for node in source.raw.nodes for n in (*node.inputs, *node.outputs)} | set(source.inputs))
    names.reserved |= {node.name for node in source.raw.nodes} | set(parameters)
    check_added_names(choice, FLAG, names, tuple(source.inputs))
    graph_names = {n: n if n == parameter_name(n) else names.fresh(parameter_name(n)) for n in parameters}
    model = forward.renamed(source, {old: new for old, new in graph_names.items() if old != new})
    model = forward.training_forms(model, names)
    trained = {new: old for old, new in graph_names.items()}
    state = model.resolved(model.parameter_types({n: n for n in trained}))
    loss = attach(choice, model, state, names, warn)
    nodes = (*model.raw.nodes, *loss.nodes)
    first = first_gradient(nodes, loss.output, state.types[loss.output])
    backward = differentiate(nodes, state, loss.output, tuple(trained), names, first)
    return TrainGraph(model, loss, {**model.inputs, **loss.targets}, trained, state, backward)


def write_train(case: TrainGraph, path: Path) -> None:
    """The training graph: data, parameters, buffers, flag -> loss, one updated flag per parameter."""
    types, backward = case.types, case.backward
    accumulate = [_accumulation(n, backward.gradients[n]) for n in types]
    nodes = [case.model.protos[n.name] for n in case.model.raw.nodes]
    nodes += map(node_proto, (*case.loss.nodes, *backward.nodes, *accumulate))
    inputs = [value(n, kind) for n, kind in (case.data | types).items()]
    inputs += [float_value(n + BUFFER_SUFFIX, kind.shape) for n, kind in types.items()]
    read = {n for node in nodes for n in node.input}
    frozen = {n: c.array for n, c in case.model.raw.constants.items() if n in read and n not in types}
    values = [n for node in (*case.model.raw.nodes, *case.loss.nodes) for n in node.outputs if n]
    infos = {n: case.state.types[n] for n in values if n != case.loss.output} | backward.types
    loss = float_value(case.loss.output, case.state.types[case.loss.output].shape)
    OnnxGraph(
        "train",
        nodes,
        [*inputs, flag_value(FLAG)],
        [loss, *(flag_value(_flag(n)) for n in types)],
        {**frozen, **case.loss.constants, **backward.constants},
        {n: kind for n, kind in infos.items() if kind.dtype == "float32"},
        case.model.opset,
    ).save(path)


def _accumulation(parameter: str, gradient: str) -> Node:
    operator = usual_accumulator()
    assert operator.accumulator is not None
    places = operator.accumulator
    names = {places.buffer: parameter + BUFFER_SUFFIX, places.gradient: gradient, places.flag: FLAG}
    inputs = tuple(name for _, name in sorted(names.items()))
    return Node(f"accumulate_{parameter}", operator.name, inputs, (_flag(parameter),))


def _flag(parameter: str) -> str:
    return f"{parameter}_grad.accumulation.out"


def _draw_samples(case: TrainGraph, count: int, seed: int) -> numbers.Samples:
    check_samples(case.data.values(), count)
    nodes = (*case.model.raw.nodes, *case.loss.nodes)
    ends = _index_ends(case) | class_counts(nodes, case.state.types)
    return numbers.draw(case.data, ends, count, seed, target_bounds(nodes))


def _index_ends(case: TrainGraph) -> dict[str, int]:
    """For each data input that chooses by number, as ids of rows do, the number behind its last choice."""
    ends: dict[str, int] = {}
    for node in case.state.nodes:
        indices = operator_of(node).indices(node, case.state.types)
        name = case.state.root(indices.input) if indices else ""
        if indices and name in case.data:
            ends[name] = min(indices.least + indices.count, ends.get(name, indices.least + indices.count))
    return ends


def _gold(case: TrainGraph, folder: Path, dataset: Dataset, place: str) -> Dataset:
    """The dataset with the results of a float64 run as expected ones.

    Raises DatasetMismatch for a label outside the classes, `place` being where samples come from, and for a run that
    diverges, which is one whose losses or weights float32 does not hold.
    """
    source = parse.read_graphs(folder / "network.onnx", parse.optimizer_dir(folder) / "network.onnx")
    program = check.check_program(source, data_inputs=len(case.data))
    verify_program(program)
    check_sample_classes(program, dataset.samples, place)
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
