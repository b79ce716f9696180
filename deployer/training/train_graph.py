"""From a forward model to a training case: both ONNX graphs, the samples, and their float64 gold."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from deployer.core.errors import DatasetMismatch, OptionProblem, Warn, python_warning
from deployer.core.ir import Node, Program, TensorType
from deployer.core.operator import Array, losses, operator_of, optimizers, usual_accumulator
from deployer.core.safe_text import one_line, parameter_name
from deployer.frontend import check, parse
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
from deployer.frontend.graph_inputs import BUFFER_SUFFIX
from deployer.frontend.prepare.axes import NO_AXES, Axes
from deployer.frontend.resolve import Resolved
from deployer.rates.course import Course, check_rate
from deployer.rates.run_time import with_run_time_rates
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
from deployer.training.groups import Group, Rule, trained_parameters
from deployer.training.groups import rules as update_rules
from deployer.training.onnx_writer import (
    OnnxGraph,
    flag_value,
    float_value,
    node_proto,
    value,
)
from deployer.training.running import Running, with_running
from deployer.training.settings import Given, split_settings, with_settings
from deployer.training.update_graph import Limits, write_optimizer
from deployer.verify.program import verify_program
from deployer.verify.reference import with_oracle

FLAG = "lazy_reset_grad"
SHARE = "loss_share"
"""The data input with what the loss of a pass counts, where an update takes the mean over its passes."""
DRAWN = 4
"""Default number of random samples."""
NO_LIMITS = Limits()
GRAPH, INPUTS, OUTPUTS = "network.onnx", "inputs.npz", "outputs.npz"


@dataclass(frozen=True)
class Report:
    """The result of a call: folders, trained parameters (name in the graph -> in the model), frozen initializers.

    `losses` is the gold of each forward pass, `dropout` says what is dropped, if the model has what drops. `running`
    are running statistics that are renewed, as `trained` has parameters.
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

    def __str__(self) -> str:
        """A few lines for a person."""
        lines = [
            f"{one_line(str(self.train))}: {self.forward_nodes} forward and {self.backward_nodes} backward nodes",
            f"trained: {', '.join(map(one_line, self.trained))}",
            f"frozen: {', '.join(map(one_line, self.frozen)) or 'none'}",
            f"loss: {self.losses[0]:.6g} -> {self.losses[-1]:.6g} in {len(self.losses)} passes",
        ]
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
    force: bool = False,
    settings: Given | None = None,
    class_weights: Sequence[float] = (),
    groups: Sequence[Group] = (),
    limits: Limits = NO_LIMITS,
    dropout: bool = True,
    axes: Axes = NO_AXES,
    statistics: bool = False,
    course: Course | None = None,
    free_rates: bool = False,
    mean: bool = False,
    flush: bool = False,
    warn: Warn = python_warning,
) -> Report:
    """Write folders `<name>_train` and `<name>_optimizer` to `out`; an empty `name` is the model file's stem.

    `loss` and `optimizer` are what operators declare as their choice, an empty optimizer the usual one; loss OWN_LOSS
    is the model's output itself. `trainable` is as `forward.choose_parameters` has it.
    `data`, as `samples.read_samples` has it, replaces the `samples` drawn from `seed`, by default 0. `n_batches` is the
    number of forward passes, by default the fewest that see every sample and end with an update. `force` overwrites
    files in those folders that no earlier call wrote, or that changed since; a failure leaves no partial case.
    `settings` are numbers that loss and optimizer declare, `groups` what is different for some parameters, `limits`
    bound gradients.
    With a `course` the case has the rates of all updates, and its program takes them when it runs; `free_rates` are
    any finite ones. An update takes the sum over its passes, or the `mean`: the gradient of the loss of their samples
    joined to one batch. With `flush` passes that are left at the end have an update of their own.
    Masks of dropout follow from `seed`, too, unless a node has its own; without `dropout` nothing is dropped.
    `axes` are lengths that the model leaves open. With `statistics` running ones are renewed in each pass, as PyTorch
    defines them.
    `warn` gets a warning for each harmless oddity of the model.
    Raises OptionProblem, FileProblem, GraphProblem, UnsupportedOperator, ShapeMismatch, NotDifferentiable,
    DatasetMismatch.
    """
    optimizer = optimizer or next(iter(optimizers()))
    _check_options(loss, optimizer, samples, n_accum, n_batches, flush)
    check_rate(learning_rate, free=free_rates)
    attributes, own = split_settings(settings or {}, losses().get(loss))
    choice = Choice(losses().get(loss), attributes, tuple(class_weights))
    with_settings(optimizer, own)
    source = forward.load(model, seed or 0, dropout, axes)
    if data is not None and seed is not None and not (dropout and source.draws.drawing):
        raise OptionProblem("--seed has no effect here", hint="--data gives the samples; leave one of them out")
    parameters = trained_parameters(forward.choose_parameters(source, trainable), groups)
    case = _make_train_graph(source, choice, parameters, mean, statistics, warn)
    rules = update_rules(case.trained, optimizer, learning_rate, own, groups, free_rates)
    for warning in (*source.notes, *case.state.warnings.values()):
        warn(warning)
    for weight, array in case.weights.items():
        check_finite(array, f"{model}: the initial weight {case.original[weight]!r}")
    folder, update = (out / f"{name or model.stem}_{part}" for part in ("train", "optimizer"))
    drawn = numbers.read_samples(case.sampled, data) if data is not None else _draw_samples(case, samples, seed or 0)
    sample_arrays = tuple({**sample, **dict.fromkeys(case.share, np.ones((), np.float32))} for sample in drawn)
    each = 1 if flush else n_accum
    batches = n_batches or each * math.ceil(len(sample_arrays) / each)
    check_passes(case.data.values(), batches)
    dataset = replace(numbers.as_dataset(sample_arrays, case.weights, batches, n_accum), flush=flush)
    with output.opened(folder, (GRAPH, INPUTS, OUTPUTS), force), output.opened(update, (GRAPH,), force):
        with output.scratch(folder) as place:
            train, step = (place / f"case_{part}" / GRAPH for part in ("train", "optimizer"))
            write_train(case, train)
            write_optimizer(case.types, {*case.data, FLAG}, rules, limits, case.model.opset, step)
            dataset, program = _checked(case, train.parent, dataset, str(data) if isinstance(data, Path) else "data")
            if course is not None:
                program, bases = with_run_time_rates(program)
                exact = _exact_rates(bases, rules.values())
                dataset = replace(dataset, rates=course.rates(exact, dataset.updates, learning_rate))
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
    frozen = tuple(n for n in source.initializers if n in source.raw.constants and n not in case.original.values())
    counts = len(case.model.raw.nodes) + len(case.loss.nodes), len(case.backward.nodes)
    dropped = _dropout(source, seed or 0, dropout)
    return Report(folder, update, case.trained, frozen, *counts, tuple(map(float, gold)), dropped, dict(case.states))


def _dropout(model: Forward, seed: int, on: bool) -> str:
    """What becomes of the model's nodes that may draw random numbers; empty where it has none."""
    drawing, idle = ([one_line(node.name) for node in nodes] for nodes in (model.draws.drawing, model.draws.idle))
    parts = [f"left out of {', '.join(drawing)}, as asked" if not on else f"of {', '.join(drawing)}, from seed {seed}"]
    parts = parts if drawing else []
    parts += [f"none of {', '.join(idle)}, which the model has in inference form"] if idle else []
    return "; ".join(parts)


@dataclass(frozen=True)
class TrainGraph:
    """The parts of a training graph, before the files exist.

    `data` are the data inputs, labels or target last, and behind them the `share` of the pass, if there is one;
    `trained` maps each parameter to its name in the model, `states` each running statistic, which `running` renew.
    """

    model: Forward
    loss: AttachedLoss
    data: dict[str, TensorType]
    trained: dict[str, str]
    states: dict[str, str]
    running: tuple[Node, ...]
    state: Resolved
    backward: Backward
    share: tuple[str, ...]

    @property
    def sampled(self) -> dict[str, TensorType]:
        """The data inputs that samples have."""
        return {name: kind for name, kind in self.data.items() if name not in self.share}

    @property
    def original(self) -> dict[str, str]:
        """The names in the model of parameters and running statistics."""
        return self.trained | self.states

    @property
    def weights(self) -> dict[str, Array]:
        """Initial values of the parameters and running statistics."""
        return {n: self.model.raw.constants[n].array for n in self.original}

    @property
    def types(self) -> dict[str, TensorType]:
        """Types of the parameters."""
        return {n: self.state.types[n] for n in self.trained}


def _check_options(loss: str, optimizer: str, samples: int, n_accum: int, n_batches: int | None, flush: bool) -> None:
    for kind, choice, choices in (("loss", loss, loss_choices()), ("optimizer", optimizer, optimizers())):
        if choice not in choices:
            raise OptionProblem(f"there is no {kind} {choice!r}", hint=f"one of {', '.join(choices)}")
    least = 1 if flush else n_accum
    if samples < 1 or n_accum < 1 or (n_batches is not None and n_batches < least):
        raise OptionProblem(
            "the run makes no update",
            [("samples", str(samples)), ("passes", str(n_batches)), ("per update", str(n_accum))],
            "at least one sample, and at least as many passes as there are per update",
        )


def _make_train_graph(
    source: Forward, choice: Choice, parameters: tuple[str, ...], mean: bool, statistics: bool, warn: Warn
) -> TrainGraph:
    names = Names({n for node in source.raw.nodes for n in (*node.inputs, *node.outputs)} | set(source.inputs))
    names.reserved |= {node.name for node in source.raw.nodes} | set(parameters)
    share = (SHARE,) if mean else ()
    check_added_names(choice, (FLAG, *share), names, tuple(source.inputs))
    graph_names = {n: n if n == parameter_name(n) else names.fresh(parameter_name(n)) for n in parameters}
    model = forward.renamed(source, {old: new for old, new in graph_names.items() if old != new})
    model = forward.training_forms(model, names)
    trained = {new: old for old, new in graph_names.items()}
    running = Running()
    if statistics:
        model, running = with_running(
            model, model.resolved(model.parameter_types({n: n for n in trained})).types, names
        )
    states = {n: n if n == parameter_name(n) else names.fresh(parameter_name(n)) for n in running.states}
    model = forward.renamed(model, {old: new for old, new in states.items() if old != new})
    updates = tuple(replace(n, inputs=tuple(states.get(i, i) for i in n.inputs)) for n in running.nodes)
    states = {new: old for old, new in states.items()}
    state = model.resolved(model.parameter_types({n: n for n in (*trained, *states)}))
    loss = attach(choice, model, state, names, warn)
    nodes = (*model.raw.nodes, *loss.nodes)
    kind = state.types[loss.output]
    shares = dict.fromkeys(share, kind)
    state.types.update(shares)
    first = SHARE if mean else first_gradient(nodes, loss.output, kind)
    backward = differentiate(nodes, state, loss.output, tuple(trained), names, first)
    data = {**model.inputs, **loss.targets, **shares}
    return TrainGraph(model, loss, data, trained, states, updates, state, backward, share)


def write_train(case: TrainGraph, path: Path) -> None:
    """The training graph: data, parameters, what runs, buffers, flag -> loss, one updated flag per parameter."""
    types, backward = case.types, case.backward
    accumulate = [_accumulation(n, backward.gradients[n]) for n in types]
    nodes = [case.model.protos[n.name] for n in case.model.raw.nodes]
    nodes += map(node_proto, (*case.loss.nodes, *backward.nodes, *accumulate, *case.running))
    states = {n: case.state.types[n] for n in case.states}
    inputs = [value(n, kind) for n, kind in (case.data | types | states).items()]
    inputs += [float_value(n + BUFFER_SUFFIX, kind.shape) for n, kind in types.items()]
    read = {n for node in nodes for n in node.input}
    frozen = {n: c.array for n, c in case.model.raw.constants.items() if n in read - {*types, *states}}
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
    check_samples(case.sampled.values(), count)
    nodes = (*case.model.raw.nodes, *case.loss.nodes)
    ends = _index_ends(case) | class_counts(nodes, case.state.types)
    return numbers.draw(case.sampled, ends, count, seed, target_bounds(nodes))


def _index_ends(case: TrainGraph) -> dict[str, int]:
    """For each data input that chooses by number, as ids of rows do, the number behind its last choice."""
    ends: dict[str, int] = {}
    for node in case.state.nodes:
        indices = operator_of(node).indices(node, case.state.types)
        name = case.state.root(indices.input) if indices else ""
        if indices and name in case.data:
            ends[name] = min(indices.least + indices.count, ends.get(name, indices.least + indices.count))
    return ends


def _exact_rates(bases: Iterable[float], rules: Iterable[Rule]) -> list[float]:
    """The rates as they are given, in the order of those that the graph has in float32."""
    given = {float(np.float32(rule.rate)): rule.rate for rule in rules}
    return [given[base] for base in bases]


def _checked(case: TrainGraph, folder: Path, dataset: Dataset, place: str) -> tuple[Dataset, Program]:
    """The dataset and the program of the graphs in the folder.

    Raises DatasetMismatch for a label outside the classes, `place` being where samples come from.
    """
    source = parse.read_graphs(folder / "network.onnx", parse.optimizer_dir(folder) / "network.onnx")
    program = check.check_program(source, data_inputs=len(case.data))
    verify_program(program)
    check_sample_classes(program, dataset.samples, place)
    return dataset, program


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
