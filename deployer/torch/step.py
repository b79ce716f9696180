"""A training step of a module as an ONNX model: loss, gradients and new buffers, each operator lowered by itself."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from deployer.core.errors import DeployerError, GraphProblem, InternalError, UnsupportedOperator
from deployer.core.ir import Node
from deployer.core.operator import Array, operator_of, training_of
from deployer.torch.graph import LOWERINGS, GraphBuilder, Value, dtype_of
from deployer.torch.lowerings.absent import ABSENT
from deployer.torch.tracing.draws import LIBRARY
from deployer.torch.tracing.places import place_of
from deployer.torch.tracing.trace import Loss, Traced, operator_name, trace_step
from deployer.training.problem import SHARE
from deployer.training.step_problem import ASSIGN, StepRecord, with_record

PLUMBING = ("device", "layout", "pin_memory", "memory_format", "non_blocking")
"""Options of operators that say where and how memory lies, of which a program has its own."""


@dataclass(frozen=True, eq=False)
class CapturedStep:
    """A module's training step.

    `model` computes the loss, its first output, from the `data` inputs and initializers with the module's names;
    `gradients` maps each trained parameter to the value that is its gradient, `states` each buffer that the step
    writes to its next value. `unused` parameters require a gradient and get none. `counts` are integers that nothing
    reads, and by how much a step raises each. `nodes` and `constants` are the model before its numbers were rounded to
    float32.
    """

    model: onnx.ModelProto
    data: tuple[str, ...]
    loss: str
    gradients: dict[str, str]
    states: dict[str, str]
    unused: tuple[str, ...]
    counts: dict[str, int]
    frozen: tuple[str, ...]
    nodes: tuple[Node, ...]
    constants: dict[str, Array]
    types: Mapping[str, Any] = field(default_factory=dict)
    drops: bool = True
    share: str = ""

    @property
    def draws(self) -> bool:
        """Whether a node draws random numbers."""
        return any(training_of(node).passes is not None for node in self.nodes)

    def save(self, path: Path, **known: Any) -> Path:
        """Write the model; its metadata say what trains it. `known` are further fields of `StepRecord`."""
        record = StepRecord(self.gradients, self.states, (*self.frozen, *self.unused), self.share, **known)
        onnx.save(with_record(self.model, record), path)
        return path


def capture_step(
    module: nn.Module,
    loss: Loss,
    data: Mapping[str, Tensor],
    *,
    seed: int = 0,
    share: bool = False,
    drops: bool = True,
    ignores: bool = True,
) -> CapturedStep:
    """The training step of a module for batches of these shapes; `loss` takes the module and the data tensors in order.

    With `share` the step has one data input more, a number that the gradient begins with. `seed` is that of random
    numbers; unless it `drops`, dropout is left out. Unless it `ignores`, no label of any batch is below zero.
    Raises what `trace_step` raises, and UnsupportedOperator for all operators without lowering at once.
    """
    given = {**data, SHARE: torch.ones(())} if share else data
    return StepWalk(trace_step(module, loss, given, share, drops), seed, drops, ignores).captured()


class StepWalk:
    """Walks a traced step, and lowers the nodes that its results depend on."""

    def __init__(self, traced: Traced, seed: int = 0, drops: bool = True, ignores: bool = True) -> None:
        held = traced.held
        names = {*held.parameters, *held.states}
        self.traced, self.graph = traced, traced.graph.graph
        self.builder = GraphBuilder(reserved=set(names), seed=seed, drops=drops, ignores=ignores)
        self.values: dict[torch.fx.Node, Any] = {}
        self.data: list[Value] = []
        self.placeholders = self.graph.find_nodes(op="placeholder")
        [output] = self.graph.find_nodes(op="output")
        self.results = list(output.args[0])

    def captured(self) -> CapturedStep:
        """The step."""
        traced, builder = self.traced, self.builder
        count, states = len(traced.trained), len(traced.states)
        loss, grads, after = self.results[0], self.results[1 : 1 + count], self.results[1 + count : 1 + count + states]
        counts = self._counts(after)
        written = {
            name: node
            for name, node, held in zip(traced.states, after, self._held_states(), strict=True)
            if _origin(node) is not held and name not in counts
        }
        self._check_parameters(self.results[1 + count + states :])
        wanted = [n for n in (loss, *grads, *written.values()) if isinstance(n, torch.fx.Node)]
        needed = _needed(wanted)
        self._check_supported(needed)
        self._place_inputs(set(written), set(counts))
        self._lower(needed)
        names = dict(zip(traced.trained, grads, strict=True))
        gradients = {n: self._result(node) for n, node in names.items() if node is not None}
        renewed = {n: self._renewed(n, node) for n, node in written.items()}
        outputs = [self._result(loss), *gradients.values(), *renewed.values()]
        unique = list({x.name: x for x in outputs}.values())
        model = builder.model(self.data, unique)
        live = {name for node in model.graph.node for name in node.output}
        kept = tuple(n for n in builder.nodes if not live.isdisjoint(n.outputs))
        return CapturedStep(
            model,
            tuple(x.name for x in self.data),
            outputs[0].name,
            {n: x.name for n, x in gradients.items()},
            {n: x.name for n, x in renewed.items()},
            tuple(n for n in traced.trained if n not in gradients),
            counts,
            traced.frozen,
            kept,
            builder.initializers,
            builder.types,
            builder.drops,
            self.data[-1].name if traced.data[-1:] == (SHARE,) else "",
        )

    def outputs(self) -> onnx.ModelProto:
        """The model of a forward pass, with an initializer for each parameter and each floating buffer."""
        [result] = self.results
        needed = _needed([result])
        self._check_supported(needed)
        self._place_inputs(set(), set())
        self._lower(needed)
        value = self._result(result)
        return self.builder.model(self.data, [value], keep=tuple(self.traced.held.parameters))

    def _lower(self, needed: set[torch.fx.Node]) -> None:
        for node in self.graph.nodes:
            if node in needed and node.op in ("call_function", "get_attr"):
                self.values[node] = self._call(node) if node.op == "call_function" else self._attribute(node)

    def _held_states(self) -> list[torch.fx.Node]:
        begin = len(self.traced.trained)
        return list(self.placeholders[begin : begin + len(self.traced.states)])

    def _renewed(self, name: str, node: torch.fx.Node) -> Value:
        """The next value of a state, over the state itself."""
        builder = self.builder
        dtype = "float32" if self.traced.held.state(name).is_floating_point() else "int64"
        value = self._result(node, dtype)
        maker = builder.makers[value.name]
        if operator_of(maker).inplace:
            return value
        builder.place = ""
        state = Value(self._last_written(name), builder.types[name].shape, dtype)
        return builder.emit(ASSIGN, [state, value], value.shape, dtype)

    def _last_written(self, state: str) -> str:
        """The name under which nodes that renew a state in place have left it."""
        for node in self.builder.nodes:
            places = operator_of(node).inplace
            written = [out for out, source in places.items() if node.inputs[source] == state and node.outputs[out]]
            state = node.outputs[written[0]] if written else state
        return state

    def _counts(self, after: Sequence[Any]) -> dict[str, int]:
        """By how much the step raises each integer that is read for nothing else."""
        counts = {}
        for name, node, held in zip(self.traced.states, after, self._held_states(), strict=True):
            state, raised, end, read = self.traced.held.state(name), 0, _origin(node), set[torch.fx.Node]()
            while end is not held and _adds_number(end) and _users(end) == read:
                raised += end.args[1] * int(end.kwargs.get("alpha", 1))
                read, end = {end}, _origin(end.args[0])
            if raised and end is held and _users(held) == read and not state.is_floating_point() and state.numel() == 1:
                counts[name] = raised
        return counts

    def _check_parameters(self, after: Sequence[Any]) -> None:
        """Raise GraphProblem where forward writes a parameter."""
        traced = self.traced
        names = (*traced.trained, *traced.frozen)
        begin = len(traced.trained) + len(traced.states)
        held = [*self.placeholders[: len(traced.trained)], *self.placeholders[begin : begin + len(traced.frozen)]]
        changed = [n for n, node, own in zip(names, after, held, strict=True) if _origin(node) is not own]
        if changed:
            hint = "torch.nn.utils.parametrizations, which compute the weight from a parameter that stays as it is"
            facts = [("parameters", ", ".join(changed))]
            raise GraphProblem("forward writes parameters; here only the optimizer may write them", facts, hint)

    def _check_supported(self, needed: set[torch.fx.Node]) -> None:
        """UnsupportedOperator for all operators that have no lowering at once."""
        missing: dict[str, list[str]] = {}
        computed: set[torch.fx.Node] = set(self.placeholders)
        for node in self.graph.nodes:
            if node not in needed or node.op != "call_function":
                continue
            name = operator_name(node.target)
            if not (name.startswith(LIBRARY) or not computed.isdisjoint(node.all_input_nodes)):
                continue
            computed.add(node)
            if node.target is not operator.getitem and name not in LOWERINGS:
                missing.setdefault(name, []).append(place_of(node))
        if missing:
            places = [(_spoken(n), _absence(n, p)) for n, p in missing.items()]
            count = "1 operator of PyTorch has" if len(missing) == 1 else f"{len(missing)} operators of PyTorch have"
            remedies = dict.fromkeys(ABSENT[n][1] for n in map(_bare, missing) if n in ABSENT)
            hint = "; ".join(remedies) or "other operators in the module or the loss"
            raise UnsupportedOperator(f"{count} no lowering", places, hint)

    def _place_inputs(self, written: set[str], counts: set[str]) -> None:
        """Parameters and buffers as initializers, and the data as inputs."""
        traced, builder = self.traced, self.builder
        names = (*traced.trained, *traced.states, *traced.frozen, *traced.data)
        for name, node in zip(names, self.placeholders, strict=True):
            if name in traced.held.parameters or name in traced.held.states:
                known = traced.held.parameters.get(name) or traced.held.states[name]
                tensor = known[0].get().detach().cpu()
                if tensor.is_floating_point() or name in written:
                    builder.initializers[name] = _exact(tensor)
                    self.values[node] = builder.declare(name, tuple(tensor.shape), _dtype(tensor))
                else:
                    self.values[node] = tensor.numpy()
                continue
            example = node.meta["val"]
            value = builder.declare(builder.fresh(name), tuple(example.shape), _dtype(example))
            self.data.append(value)
            self.values[node] = value

    def _attribute(self, node: torch.fx.Node) -> Any:
        """A constant tensor of the trace."""
        return _exact(getattr(self.traced.graph, str(node.target)).detach().cpu())

    def _call(self, node: torch.fx.Node) -> Any:
        arguments, options = self._read(list(node.args)), self._read(dict(node.kwargs))
        if node.target is operator.getitem:
            return arguments[0][arguments[1]]
        name = operator_name(node.target)
        if not name.startswith(LIBRARY) and _is_known(arguments) and _is_known(options):
            return _computed(node, arguments, options)
        builder = self.builder
        builder.place, builder.operator = place_of(node), _spoken(name)
        options = {n: v for n, v in options.items() if n not in PLUMBING}
        try:
            result = LOWERINGS[name](builder, *arguments, **options)
        except DeployerError:
            raise
        except (TypeError, ValueError, KeyError, IndexError, AssertionError) as error:
            facts = [("overload", str(node.target)), ("cause", f"{type(error).__name__}: {error}"[:200])]
            facts.append(("in", builder.place or "the module"))
            hint = "other arguments, or other operators"
            raise UnsupportedOperator(f"{builder.operator}: no lowering for these arguments", facts, hint) from error
        return _checked(builder, node, result)

    def _read(self, argument: Any) -> Any:
        if isinstance(argument, torch.fx.Node):
            return self.values[argument]
        if isinstance(argument, list | tuple):
            return [self._read(x) for x in argument]
        if isinstance(argument, dict):
            return {name: self._read(x) for name, x in argument.items()}
        return argument

    def _result(self, node: torch.fx.Node, dtype: str = "float32") -> Value:
        """A result as a computed value of the model, under a name of its own where it is an input or a constant."""
        builder = self.builder
        value = builder.cast(builder.value(self.values[node]), dtype)
        builder.place = ""
        return builder.named(value)


def _adds_number(node: torch.fx.Node) -> bool:
    """Whether a node adds an integer that is known."""
    called = node.op == "call_function" and operator_name(node.target) == "add"
    return called and isinstance(node.args[1], int)


def _origin(node: Any) -> Any:
    """The node behind copies that change nothing."""
    while isinstance(node, torch.fx.Node) and node.op == "call_function":
        if operator_name(node.target) not in ("alias", "detach", "clone", "lift_fresh"):
            break
        node = node.args[0]
    return node


def _users(node: torch.fx.Node) -> set[torch.fx.Node]:
    """Return the users of a value, seen through no-op copies; the graph's own results do not count."""
    found: set[torch.fx.Node] = set()
    for user in node.users:
        if user.op == "output":
            continue
        found |= _users(user) if _origin(user) is not user else {user}
    return found


def _needed(results: Sequence[torch.fx.Node]) -> set[torch.fx.Node]:
    """Nodes that the results depend on."""
    needed, waiting = set[torch.fx.Node](), list(results)
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            waiting += node.all_input_nodes
    return needed


def _bare(name: str) -> str:
    """The operator's name without namespace."""
    return name.rpartition("::")[2]


def _absence(name: str, places: Sequence[str]) -> str:
    """Count and first place of calls of an operator without lowering, and the reason where it is known."""
    where = f"{len(places)} times, first in {next(iter(places)) or 'the module'}"
    reason = ABSENT.get(_bare(name))
    return f"{where}: {reason[0]}" if reason else where


def _spoken(name: str) -> str:
    """The operator's name as a message has it."""
    return name.replace("::", ".") if "::" in name else f"aten.{name}"


def _exact(tensor: Tensor) -> Array:
    """A copy of the content, floats in float64."""
    return np.array(tensor.double().numpy() if tensor.is_floating_point() else tensor.numpy())


def _dtype(tensor: Tensor) -> str:
    if tensor.dtype == torch.bool:
        return "bool"
    if tensor.is_floating_point():
        return "float32"
    if tensor.is_complex():
        raise UnsupportedOperator("the module computes with complex numbers", hint="real and imaginary parts")
    return "int64"


def _is_known(argument: Any) -> bool:
    """Whether an argument holds no tensor of the graph."""
    if isinstance(argument, list | tuple):
        return all(map(_is_known, argument))
    if isinstance(argument, dict):
        return all(map(_is_known, argument.values()))
    return not isinstance(argument, Value)


def _computed(node: torch.fx.Node, arguments: Any, options: Any) -> Any:
    """The operator's result, which no input changes; floats are float64."""

    def tensors(argument: Any) -> Any:
        if isinstance(argument, np.ndarray):
            return torch.from_numpy(np.asarray(argument, order="C"))
        if isinstance(argument, list):
            return [tensors(x) for x in argument]
        return torch.float64 if argument is torch.float32 else argument

    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            target: Any = node.target
            result = target(*tensors(arguments), **{name: tensors(value) for name, value in options.items()})
    finally:
        torch.set_default_dtype(default)
    if isinstance(result, Tensor):
        return _exact(result)
    return tuple(_exact(x) for x in result) if isinstance(result, tuple | list) else result


def _checked(builder: GraphBuilder, node: torch.fx.Node, result: Any) -> Any:
    """The result in PyTorch's dtypes; InternalError where it is not of PyTorch's shape."""
    examples = node.meta.get("val")
    several = isinstance(examples, tuple | list)
    pairs = zip(examples, result, strict=False) if several else [(examples, result)]
    checked = []
    for example, value in pairs:
        if isinstance(value, Value) and isinstance(example, Tensor):
            static = all(isinstance(n, int) for n in example.shape)  # else a known mask decided it
            if static and tuple(example.shape) != value.shape:
                raise InternalError(f"{node.target}: lowered to {value.shape}, and PyTorch has {tuple(example.shape)}")
            value = builder.cast(value, _dtype(example))
        elif isinstance(value, np.ndarray) and isinstance(example, Tensor) and dtype_of(value) != _dtype(example):
            value = builder.cast(value, _dtype(example))
        checked.append(value)
    return tuple(checked) if several else checked[0]
