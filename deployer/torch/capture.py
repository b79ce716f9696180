"""A PyTorch module in training mode as an ONNX model: torch.export's graph, lowered operator by operator.

PyTorch's own exporter to ONNX is for inference: it folds batch norms, merges equal initializers and drops zero biases,
all of which makes another training problem. This one keeps each parameter, by the module's own name, and each operator.
"""

import contextlib
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn

from deployer.core.errors import GraphProblem, InternalError, OptionProblem, UnsupportedOperator
from deployer.core.operator import registry
from deployer.core.packages import walk
from deployer.core.traits.training import NO_TRAINING
from deployer.torch import lowerings
from deployer.torch.forward_check import check_forward
from deployer.torch.graph import LOWERINGS, GraphBuilder, Value
from deployer.torch.objectives import Objective, scores_of
from deployer.torch.step import StepWalk
from deployer.torch.tracing.trace import trace_forward
from deployer.training.step_problem import with_trained

KNOWN = (int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


@dataclass(frozen=True)
class Captured:
    """A module's forward pass as a model.

    `inputs` are the names of its inputs, `parameters` those of its trained parameters, `buffers` of running statistics,
    all as in the module. `unused` parameters are read by no operator. `counts` are buffers of integers, such as numbers
    of batches, and by how much a pass raises each.
    """

    model: onnx.ModelProto
    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    buffers: tuple[str, ...]
    unused: tuple[str, ...]
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def drops(self) -> bool:
        """Whether a node drops elements at random."""
        trainings = (registry()[node.op_type].training or NO_TRAINING for node in self.model.graph.node)
        return any(training.passes is not None for training in trainings)

    @property
    def trainable(self) -> str:
        """An expression that is found in the names of the parameters alone, and not in those of constants."""
        return f"^(?:{'|'.join(map(re.escape, self.parameters))})$"

    def save(self, path: Path) -> Path:
        """Write the model; its metadata say which parameters are trained."""
        onnx.save(with_trained(self.model, self.parameters), path)
        return path


@contextlib.contextmanager
def _with_dropout(module: nn.Module, drops: bool) -> Iterator[None]:
    """The module with dropout that is an operator of its own, with its rates, or meanwhile with rates of 0.

    The modules are changed and not the graph: of what works in place torch.export draws the mask by itself.
    """
    kind = nn.modules.dropout._DropoutNd
    found = [(m, "inplace") for m in module.modules() if isinstance(m, kind)]
    layers = [(m, "p" if isinstance(m, kind) else "dropout") for m in module.modules() if not drops]
    found += [(m, name) for m, name in layers if isinstance(getattr(m, name, None), int | float)]
    before = [(m, name, getattr(m, name)) for m, name in found]
    try:
        for layer, name, value in before:
            setattr(layer, name, type(value)(0))
        yield
    finally:
        for layer, name, value in before:
            setattr(layer, name, value)


def capture(
    module: nn.Module,
    inputs: torch.Tensor | Sequence[torch.Tensor],
    output: int = 0,
    dropout: str = "on",
    check: bool = True,
) -> Captured:
    """The module's forward pass at the shapes of `inputs`, one tensor or several, in the mode the module is in.

    `output` is the number of the result to keep, where there are several. Dropout "off" leaves it out. A file of the
    model is differentiated by our own rules; these gradients are compared with PyTorch's unless `check` is False.
    Raises OptionProblem for another word, UnsupportedOperator with the place in the module for what has no lowering,
    CaptureMismatch where PyTorch stops, scales or replaces a gradient, which a forward pass does not say.
    """
    if dropout not in ("on", "off"):
        raise OptionProblem(f"dropout is {dropout!r}", hint="'on' or 'off'")
    inputs = (inputs,) if isinstance(inputs, torch.Tensor) else inputs
    walk(lowerings)
    with _with_dropout(module, dropout == "on"):
        program = torch.export.export(module, tuple(inputs)).run_decompositions({})
    first: dict[int, str] = {}
    names = {n: first.setdefault(id(p), n) for n, p in module.named_parameters(remove_duplicate=False)}
    frozen = {n for n, p in module.named_parameters() if not p.requires_grad}
    captured = _Walk(program, names, frozen, output, dropout == "on").captured()
    if check and captured.parameters:
        with _with_dropout(module, dropout == "on"):
            check_forward(captured.model, captured.trainable, module, inputs, output)
    return captured


@dataclass(frozen=True)
class CapturedOutputs:
    """Model of a module's forward pass in evaluation mode, with the module's names."""

    model: onnx.ModelProto

    def save(self, path: Path) -> Path:
        """Write the model."""
        onnx.save(self.model, path)
        return path


def capture_outputs(module: nn.Module, objective: Objective, data: Mapping[str, torch.Tensor]) -> CapturedOutputs:
    """The scores that a loss by name compares, or the loss itself, of a module in evaluation mode."""
    if not objective.name:
        return CapturedOutputs(StepWalk(trace_forward(module, objective, data)).outputs())
    inputs = {n: data[n] for n in objective.inputs}

    def scores(module: nn.Module, *tensors: torch.Tensor) -> torch.Tensor:
        return scores_of(objective.output(module, *tensors))

    return CapturedOutputs(StepWalk(trace_forward(module, scores, inputs)).outputs())


class _Walk:
    """Walks a functional graph of torch.export.

    `names` has the first name of each parameter, of tied ones for all; those that are `frozen` are not trained.
    """

    def __init__(
        self,
        program: torch.export.ExportedProgram,
        names: dict[str, str],
        frozen: set[str],
        output: int,
        drops: bool,
    ) -> None:
        self.program, self.frozen, self.output = program, frozen, output
        signature = program.graph_signature
        self.parameters = {node: names.get(name, name) for node, name in signature.inputs_to_parameters.items()}
        self.buffers = dict(signature.inputs_to_buffers) | dict(signature.inputs_to_lifted_tensor_constants)
        self.builder = GraphBuilder(
            reserved={*self.parameters.values(), *self.buffers.values()}, drops=drops, saves=False
        )
        self.values: dict[str, Any] = {}
        self.inputs: list[Value] = []

    def captured(self) -> Captured:
        """The model."""
        state = {**self.program.state_dict, **self.program.constants}
        self._check_supported()
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node, state)
            elif node.op == "call_function":
                self.values[node.name] = self._call(node)
        model = self.builder.model(self.inputs, [self._result()])
        read = {t.name for t in model.graph.initializer}
        trained = tuple(n for n in dict.fromkeys(self.parameters.values()) if n not in self.frozen)
        return Captured(
            model,
            tuple(x.name for x in self.inputs),
            tuple(n for n in trained if n in read),
            tuple(n for n in dict.fromkeys(self.buffers.values()) if n in read),
            tuple(n for n in trained if n not in read),
            self._counts(state),
        )

    def _counts(self, state: dict[str, Any]) -> dict[str, int]:
        """By how much a pass raises each buffer with one known integer."""
        renewed = {spec.target: spec.arg for spec in self.program.graph_signature.output_specs if spec.target}
        values = {name: self.values.get(str(getattr(arg, "name", ""))) for name, arg in renewed.items()}
        known = {name: value for name, value in values.items() if isinstance(value, np.ndarray) and value.size == 1}
        return {name: int(value.reshape(())) - int(state[name]) for name, value in known.items()}

    def _check_supported(self) -> None:
        """UnsupportedOperator for all operators that have no lowering at once."""
        missing: dict[str, list[str]] = {}
        computed: set[torch.fx.Node] = set()
        for node in self.program.graph.nodes:
            called = node.op == "call_function" and (_is_random(node) or not computed.isdisjoint(node.all_input_nodes))
            if called or (node.op == "placeholder" and not self._is_count(node)):
                computed.add(node)
            if called and node.target is not operator.getitem and _name(node) not in LOWERINGS:
                missing.setdefault(_name(node), []).append(_place(node))
        if missing:
            places = [(f"aten.{n}", f"{len(p)} times, first in {p[0] or 'the module'}") for n, p in missing.items()]
            hint = "other operators in the module"
            raise UnsupportedOperator(f"{len(missing)} operators of PyTorch have no lowering", places, hint)

    def _is_count(self, node: torch.fx.Node) -> bool:
        """Whether the input is a buffer of integers, such as the number of batches: it is known."""
        return node.name in self.buffers and not node.meta["val"].is_floating_point()

    def _placeholder(self, node: torch.fx.Node, state: dict[str, Any]) -> None:
        name = self.parameters.get(node.name) or self.buffers.get(node.name)
        if name is None:
            example = node.meta["val"]
            if not isinstance(example, torch.Tensor):
                raise GraphProblem(f"input {node.name!r} is not a tensor", hint="tensors as inputs")
            value = self.builder.declare(self.builder.fresh(node.name), tuple(example.shape), _dtype(example))
            self.inputs.append(value)
        else:
            tensor = state[name].detach()
            if self._is_count(node):
                self.values[node.name] = tensor.numpy()
                return
            self.builder.initializers[name] = tensor.numpy()
            value = self.builder.declare(name, tuple(tensor.shape))
        self.values[node.name] = value

    def _call(self, node: torch.fx.Node) -> Any:
        arguments, options = self._read(node.args), self._read(node.kwargs)
        if node.target is operator.getitem:
            return arguments[0][arguments[1]]
        if _is_known(arguments) and _is_known(options) and not _is_random(node):
            return _computed(node, arguments, options)
        builder = self.builder
        builder.place, builder.operator = _place(node), f"aten.{_name(node)}"
        options = {n: v for n, v in options.items() if n not in ("device", "layout", "pin_memory", "memory_format")}
        result = LOWERINGS[_name(node)](builder, *arguments, **options)
        _check_shapes(node, result)
        return result

    def _read(self, argument: Any) -> Any:
        if isinstance(argument, torch.fx.Node):
            return self.values[argument.name]
        if isinstance(argument, list | tuple):
            return [self._read(x) for x in argument]
        if isinstance(argument, dict):
            return {name: self._read(x) for name, x in argument.items()}
        return argument

    def _result(self) -> Value:
        results = [
            spec.arg.name for spec in self.program.graph_signature.output_specs if spec.kind.name == "USER_OUTPUT"
        ]
        value = self.values[results[self.output]] if self.output < len(results) else None
        if not isinstance(value, Value):
            raise GraphProblem(
                f"result {self.output} of the module is not a computed tensor", [("results", str(results))]
            )
        return value


def _name(node: torch.fx.Node) -> str:
    """The operator's name without overload."""
    target: Any = node.target
    return str(target._schema.name.split("::")[1]) if hasattr(target, "_schema") else str(target)


def _is_random(node: torch.fx.Node) -> bool:
    """Whether the operator draws numbers, so that what it gives is not known though its arguments are."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def _place(node: torch.fx.Node) -> str:
    """The submodule that called the operator."""
    stack = node.meta.get("nn_module_stack") or {}
    return str(next(reversed(stack.values()))[0]).removeprefix("L['self'].").strip("'") if stack else ""


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _is_known(argument: Any) -> bool:
    """Whether an argument holds no tensor of the graph."""
    if isinstance(argument, list):
        return all(map(_is_known, argument))
    if isinstance(argument, dict):
        return all(map(_is_known, argument.values()))
    return isinstance(argument, (*KNOWN, np.ndarray))


def _computed(node: torch.fx.Node, arguments: Any, options: Any) -> Any:
    """The operator's result, which no input changes."""

    def tensors(argument: Any) -> Any:
        if isinstance(argument, np.ndarray):
            return torch.from_numpy(argument)
        if isinstance(argument, list):
            return [tensors(x) for x in argument]
        return argument

    target: Any = node.target
    result = target(*tensors(arguments), **{name: tensors(value) for name, value in options.items()})
    if isinstance(result, torch.Tensor):
        return result.numpy()
    return tuple(x.numpy() for x in result) if isinstance(result, tuple | list) else result


def _check_shapes(node: torch.fx.Node, result: Any) -> None:
    """Raise InternalError where a lowering's result is not of the shape that PyTorch's is."""
    examples = node.meta.get("val")
    pairs = zip(examples, result, strict=False) if isinstance(examples, tuple | list) else [(examples, result)]
    for example, value in pairs:
        if isinstance(value, Value) and isinstance(example, torch.Tensor) and tuple(example.shape) != value.shape:
            raise InternalError(f"{node.target}: lowered to {value.shape}, and PyTorch has {tuple(example.shape)}")
