"""A training problem without samples: both graphs of a forward model, a loss, and the rule of each parameter."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from onnx import TensorProto

from deployer.core.errors import OptionProblem, Warn, python_warning
from deployer.core.ir import FROZEN, LOSS_SHARE, TRAINED, GraphNames, Node, Program, TensorType
from deployer.core.operator import Array, losses, optimizers, usual_accumulator
from deployer.core.safe_text import parameter_name
from deployer.core.traits.training import Accumulator
from deployer.frontend import check, parse
from deployer.frontend.data_numbers import check_finite
from deployer.frontend.graph_inputs import BUFFER_SUFFIX
from deployer.frontend.prepare import NO_AXES, Axes
from deployer.frontend.resolve import Resolved
from deployer.lr_schedules.lr_schedule import LrSchedule, check_rate
from deployer.lr_schedules.run_time import with_run_time_rates
from deployer.training import forward
from deployer.training.attached_loss import (
    AttachedLoss,
    OutputChoice,
    attach,
    check_added_names,
    first_gradient,
    loss_choices,
)
from deployer.training.autodiff import Backward, differentiate
from deployer.training.forward import Forward
from deployer.training.groups import GroupRule, ParameterGroup, trained_parameters
from deployer.training.groups import rules as update_rules
from deployer.training.initial import with_initial
from deployer.training.onnx_writer import (
    OnnxGraph,
    flag_value,
    float_value,
    node_proto,
    typed,
    value,
)
from deployer.training.running import Running, with_running
from deployer.training.settings import Given, split_settings, with_settings
from deployer.training.step_problem import (
    StepRecord,
    check_options,
    chosen_parameters,
    read_record,
    read_trained,
    step_parts,
    tensor_fates,
)
from deployer.training.tensors.decisions import Decision
from deployer.training.tensors.edits import NO_EDITS, Edits
from deployer.training.tensors.exported import lint
from deployer.training.tensors.selection import Expected, select
from deployer.training.update_graph import Limits, write_optimizer
from deployer.verify.program import verify_program

FLAG = "lazy_reset_grad"
SHARE = LOSS_SHARE
"""The data input with what the loss of a pass counts, where an update takes the mean over its passes."""
NO_LIMITS = Limits()


@dataclass(frozen=True)
class TrainGraph:
    """The parts of a training graph, before the files exist.

    `data` are the data inputs, labels or target last, and behind them the `share` of the pass, if there is one;
    `trained` maps each parameter to its name in the model, `states` each running statistic, which `running` renew.
    `scored` is the loss as metrics take it of the model's output, where the graph has it in another form.
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
    scored: AttachedLoss | None = None

    @property
    def sampled(self) -> dict[str, TensorType]:
        """The data inputs that samples have."""
        return {name: kind for name, kind in self.data.items() if name not in self.share}

    @property
    def inputs(self) -> tuple[str, ...]:
        """The data inputs of the model, without labels, targets and weights of samples."""
        return tuple(name for name in self.sampled if name not in self.loss.targets)

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


@dataclass(frozen=True)
class Problem:
    """A training problem without samples: the model, its training graph, the update of each parameter, and limits.

    `learning_rate` is that of parameters that have none of their own, `drawn` are those whose initial values were.
    `tensors` says of each float tensor of the model what becomes of it, `edits` how the model was rewritten.
    """

    source: Forward
    graph: TrainGraph
    rules: dict[str, GroupRule]
    limits: Limits
    learning_rate: float
    drawn: tuple[str, ...] = ()
    tensors: tuple[Decision, ...] = ()
    edits: Edits = NO_EDITS

    def write(self, train: Path, optimizer: Path) -> None:
        """Write both graphs."""
        case = self.graph
        write_train(case, train)
        write_optimizer(case.types, {*case.data, FLAG}, self.rules, self.limits, case.model.opset, optimizer)

    def program(self, train: Path, optimizer: Path) -> Program:
        """The program of both graphs as they were written; what is odd about the model has been said before."""
        source = parse.read_graphs(train, optimizer)
        program = check.check_program(source, data_inputs=len(self.graph.data), warn=lambda warning: None)
        verify_program(program)
        return program

    def rated(
        self, program: Program, lr_schedule: LrSchedule, updates: int
    ) -> tuple[Program, Array, tuple[float, ...]]:
        """The problem's program, which takes its rates when it runs, those of its updates, and the groups' own rates.

        The rates are float32 [updates, groups of parameters]. Raises OptionProblem as `LrSchedule.rates` does.
        """
        program, narrow = with_run_time_rates(program)
        given = {float(np.float32(rule.rate)): rule.rate for rule in self.rules.values()}
        bases = tuple(given[base] for base in narrow)
        return program, lr_schedule.rates(bases, updates, self.learning_rate), bases


def pose_problem(
    model: Path,
    loss: str,
    optimizer: str,
    learning_rate: float,
    trainable: str = "",
    settings: Given | None = None,
    class_weights: Sequence[float] = (),
    groups: Sequence[ParameterGroup] = (),
    limits: Limits = NO_LIMITS,
    *,
    free_rates: bool = False,
    seed: int = 0,
    dropout: bool = True,
    axes: Axes = NO_AXES,
    statistics: bool = False,
    mean: bool = False,
    expected: Expected = (),
    initial: str = "",
    warn: Warn = python_warning,
) -> Problem:
    """The training problem of a forward model; arguments and errors are those of `build_train_graph`."""
    optimizer = optimizer or next(iter(optimizers()))
    for kind, name, names in (("loss", loss, loss_choices()), ("optimizer", optimizer, optimizers())):
        if name not in names:
            raise OptionProblem(f"there is no {kind} {name!r}", hint=f"one of {', '.join(names)}")
    check_rate(learning_rate, free=free_rates)
    attributes, own = split_settings(settings or {}, losses().get(loss))
    choice = OutputChoice(losses().get(loss), attributes, tuple(class_weights))
    with_settings(optimizer, own)
    record = read_record(model)
    if record is not None:
        given = {"--trainable": trainable, "--class-weights": class_weights, "--init": initial, **attributes}
        check_options(model, record, loss, given)
        return _pose_step(
            model, record, (optimizer, learning_rate, own, groups, limits, free_rates), dropout, mean, warn
        )
    trainable = trainable or ("" if expected else read_trained(model))
    source = forward.load(model, seed, dropout, axes)
    selection = select(source, trainable, expected, groups)
    parameters = trained_parameters(selection.parameters, groups)
    if selection.edits:
        source = forward.load(model, seed, dropout, axes, selection.edits)
    for warning in (*selection.warnings, *lint(source, parameters, expected)):
        warn(warning)
    source, drawn = with_initial(source, parameters, initial, seed) if initial else (source, ())
    case = _make_train_graph(source, choice, parameters, mean, statistics, warn)
    rules = update_rules(case.trained, optimizer, learning_rate, own, groups, free_rates)
    for warning in source.notes:
        warn(warning)
    for weight, array in case.weights.items():
        check_finite(array, f"{model}: the initial weight {case.original[weight]!r}")
    decisions = tuple(_after_groups(d, parameters, selection.edits) for d in selection.decisions)
    return Problem(source, case, rules, limits, learning_rate, drawn, decisions, selection.edits)


def _after_groups(decision: Decision, parameters: Collection[str], edits: Edits) -> Decision:
    """The decision about a tensor that a group may have frozen."""
    copy = edits.copies.get(decision.name)
    trained = (copy.source if copy else decision.name) in parameters
    return (
        decision
        if trained or decision.fate != TRAINED
        else replace(decision, fate=FROZEN, why="frozen by --param-group")
    )


def _pose_step(
    path: Path,
    record: StepRecord,
    update: tuple[str, float, Given, Sequence[ParameterGroup], Limits, bool],
    dropout: bool,
    mean: bool,
    warn: Warn,
) -> Problem:
    """The training problem of a step model, whose gradients are in the file."""
    optimizer, learning_rate, settings, groups, limits, free_rates = update
    if mean != bool(record.share):
        hint = f"--accumulate {'sum' if mean else 'mean'}, or capture the step anew"
        raise OptionProblem(f"{path} accumulates {'sums' if mean else 'means'} of its passes", hint=hint)
    source = forward.load(path, 0, dropout, is_step=True)
    parameters = trained_parameters(chosen_parameters(source, record, path), groups)
    step = step_parts(source, record, parameters)
    constants = step.model.raw.constants
    wide = {n: "float32" if constants[n].dtype == "float32" else "int32" for n in (*step.trained, *step.states)}
    state = step.model.resolved({n: TensorType(dtype, constants[n].shape) for n, dtype in wide.items()})
    share = (record.share,) if record.share else ()
    graph = TrainGraph(
        step.model, step.loss, dict(step.model.inputs), step.trained, step.states, (), state,
        step.backward, share, step.scored,
    )  # fmt: skip
    rules = update_rules(graph.trained, optimizer, learning_rate, settings, groups, free_rates)
    for warning in source.notes:
        warn(warning)
    for weight, array in graph.weights.items():
        check_finite(array, f"{path}: the initial value of {graph.original[weight]!r}")
    decisions = tuple(tensor_fates(source, record, parameters))
    return Problem(source, graph, rules, limits, learning_rate, tensors=decisions)


def _make_train_graph(
    source: Forward, choice: OutputChoice, parameters: tuple[str, ...], mean: bool, statistics: bool, warn: Warn
) -> TrainGraph:
    names = GraphNames({n for node in source.raw.nodes for n in (*node.inputs, *node.outputs)} | set(source.inputs))
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
    integers = defaultdict(lambda: int(TensorProto.INT64), case.model.raw.elements)
    inputs = [value(n, kind, integers[n]) for n, kind in (case.data | types | states).items()]
    inputs += [float_value(n + BUFFER_SUFFIX, kind.shape) for n, kind in types.items()]
    read = {n for node in nodes for n in node.input}
    constants = case.model.raw.constants
    frozen = {n: typed(c.array, integers[n]) for n, c in constants.items() if n in read - {*types, *states}}
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
    places = operator.role(Accumulator)
    assert places is not None
    names = {places.buffer: parameter + BUFFER_SUFFIX, places.gradient: gradient, places.flag: FLAG}
    inputs = tuple(name for _, name in sorted(names.items()))
    return Node(f"accumulate_{parameter}", operator.name, inputs, (_flag(parameter),))


def _flag(parameter: str) -> str:
    return f"{parameter}_grad.accumulation.out"
