"""A gradient builder that runs: emitted nodes are evaluated through their references in float64."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, file_of, operator_of
from deployer.operators.movement.shapes import Reshape
from deployer.operators.reduction.reduction import ReduceSum

Run = Callable[[Node, Sequence[Array | None]], Sequence[Array]]
DOUT = "dout"
"""The name of the gradient that arrives."""


def by_reference(node: Node, inputs: Sequence[Array | None]) -> Sequence[Array]:
    """The outputs of a node by its meaning in numpy."""
    return operator_of(node).reference(node, inputs)


def evaluate(nodes: Sequence[Node], values: Mapping[str, Array], run: Run = by_reference) -> dict[str, Array]:
    """All values after the nodes ran in order, each by `run`."""
    arrays = dict(values)
    for node in nodes:
        node = with_static_inputs(node, arrays)
        results = run(node, [arrays[n] if n else None for n in node.inputs])
        arrays.update((n, x) for n, x in zip(node.outputs, results, strict=False) if n)
    return arrays


def with_static_inputs(node: Node, constants: Mapping[str, Array]) -> Node:
    """The node with static inputs moved to attributes, as the check stage does."""
    attrs, inputs, file = dict(node.attrs), list(node.inputs), file_of(operator_of(node))
    for position, attribute in file.static_inputs.items():
        name = inputs[position] if position < len(inputs) else ""
        if name and file.is_static(position, constants.get(name)):
            attrs[attribute] = tuple(constants[name].reshape(-1).tolist())
            inputs[position] = ""
    while inputs and not inputs[-1]:
        inputs.pop()
    return replace(node, inputs=tuple(inputs), attrs=attrs)


class EvaluatingBuilder:
    """The GradientBuilder protocol over one node whose inputs and outputs have the given types.

    `only` are the inputs whose gradient the rule must give; `nodes` are those it emitted, over `constants`,
    and `written` the same as a file has them.
    """

    def __init__(self, node: Node, types: Mapping[str, TensorType], only: Sequence[int]) -> None:
        self.node = node
        self.only = tuple(only)
        self.nodes: list[Node] = []
        self.written: list[Node] = []
        self.constants: dict[str, Array] = {}
        self.asked: set[int] = set()
        self._types = dict(types)
        self._count = 0

    def type(self, name: str) -> TensorType:
        """dtype and shape of any value."""
        return self._types[name]

    def needs_grad(self, index: int) -> bool:
        """Whether the gradient of this input is needed."""
        return index in self.only

    def grad(self, index: int) -> str:
        """Name of the gradient of this input."""
        assert index in self.only, f"the rule produces the gradient of input {index}, which is not wanted"
        self.asked.add(index)
        return f"grad{index}"

    def temp(self, label: str) -> str:
        """A fresh name."""
        self._count += 1
        return f"{label}_{self._count}"

    def emit(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attrs: AttrValue) -> None:
        """Append a node and infer its types, so that an ill-typed rule fails here."""
        raw = Node(f"{op}_{len(self.nodes)}", op, tuple(inputs), tuple(outputs), attrs)
        node = with_static_inputs(raw, self.constants)
        types = operator_of(node).infer(node, [self._types[n] if n else None for n in node.inputs])
        self._types.update((n, t) for n, t in zip(outputs, types, strict=False) if n)
        self.nodes.append(node)
        self.written.append(raw)

    def constant(self, label: str, value: Array) -> str:
        """A constant tensor."""
        name = self.temp(label)
        array = np.asarray(value)
        self.constants[name] = array
        self._types[name] = TensorType("float32" if array.dtype.kind == "f" else "int32", array.shape)
        return name

    def reduce_to(self, name: str, shape: tuple[int, ...], out: str) -> None:
        """Sum over the axes along which `shape` was broadcast."""
        full = self.type(name).shape
        aligned = (1,) * (len(full) - len(shape)) + shape
        axes = tuple(i for i, (a, b) in enumerate(zip(full, aligned, strict=True)) if a != b)
        total = name
        if axes:
            total = self.temp("sum")
            self.emit(ReduceSum.name, (name, self.constant("axes", np.array(axes))), (total,), keepdims=1)
        self.emit(Reshape.name, (total, self.constant("shape", np.array(shape, np.int64))), (out,))

    def gradients(self, values: Mapping[str, Array], run: Run = by_reference) -> dict[int, Array]:
        """The gradient of each input in `only`, in the float type of `values`; zeros if the rule did not produce it."""
        kind = next(x.dtype for x in values.values() if x.dtype.kind == "f")
        constants = {n: x.astype(kind if x.dtype.kind == "f" else np.int32) for n, x in self.constants.items()}
        results = evaluate(self.nodes, {**values, **constants}, run)
        zeros = {i: np.zeros(self.type(self.node.inputs[i]).shape, kind) for i in self.only}
        return zeros | {i: results[f"grad{i}"] for i in sorted(self.asked)}


def forward_and_backward(
    node: Node, values: Mapping[str, Array], wanted: Sequence[int], dout: Array | None, run: Run = by_reference
) -> tuple[tuple[Array, ...], dict[int, Array]]:
    """The outputs of a node, and the gradients of the wanted inputs by its rule, each node computed by `run`.

    `dout` is the gradient of the first output; None stands for the one of a loss.
    """
    outputs = tuple(run(node, [values[n] if n else None for n in node.inputs]))
    everything = {**values, **{n: x for n, x in zip(node.outputs, outputs, strict=False) if n}}
    if dout is not None:
        everything[DOUT] = dout
    types = {n: TensorType("float32" if x.dtype.kind == "f" else "int32", x.shape) for n, x in everything.items()}
    builder = EvaluatingBuilder(node, types, wanted)
    if wanted:
        douts = ["" if dout is None else DOUT, *[""] * (len(node.outputs) - 1)]
        operator_of(node).gradient(node, douts, builder)
    return outputs, builder.gradients(everything, run)
