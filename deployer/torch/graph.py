"""ONNX graph that is built while a PyTorch graph is walked, and the registry of lowerings of ATen operators."""

import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import numpy_helper

from deployer.core.errors import UnsupportedOperator
from deployer.core.ir import AttrValue, GraphNames, Node, TensorType
from deployer.core.operator import Array, operator_of, training_of
from deployer.frontend.graph_sort import live_nodes
from deployer.frontend.resolve import Resolved, static_form
from deployer.training.autodiff import Tape, apply_rule, fixed_form, pull_back
from deployer.training.onnx_writer import input_form, node_proto

OPSET, IR_VERSION = 21, 10


@dataclass(frozen=True)
class Value:
    """A tensor of the ONNX graph: its name, shape, and dtype in numpy's words."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def axis(self, axis: int) -> int:
        """The axis counted from the front."""
        return axis % max(self.rank, 1)


Operand = Value | Array | float | int
"""What an ATen operator takes for a tensor: one of the graph, one that is known, or a number."""


@dataclass(frozen=True)
class Subgraph:
    """Part of the graph whose gradient is pulled back: its nodes, and the names of its inputs and outputs."""

    nodes: tuple[Node, ...]
    sources: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(eq=False)
class GraphBuilder:
    """Nodes and initializers in the order they are added, with the types of all values.

    `operator` is the ATen operator that is lowered now, `place` the submodule that called it. Without `drops` nothing
    is dropped at random. `subgraphs` are found by their first results. Initializers of floats are float64, so that a
    check can compute with the module's own numbers; `model` rounds them. `seed` is that of the nodes that draw. Unless
    it `ignores`, no label is below zero, as ignored ones are. Where it `saves`, operators give what their gradients
    read; else they are ONNX's own, for a file.
    """

    nodes: list[Node] = field(default_factory=list)
    initializers: dict[str, Array] = field(default_factory=dict)
    reserved: set[str] = field(default_factory=set)
    types: dict[str, TensorType] = field(default_factory=dict)
    makers: dict[str, Node] = field(default_factory=dict)
    place: str = ""
    operator: str = ""
    drops: bool = True
    seed: int = 0
    ignores: bool = True
    saves: bool = True
    subgraphs: dict[str, Subgraph] = field(default_factory=dict)
    _constants: dict[tuple[str, tuple[int, ...], bytes], Value] = field(default_factory=dict)

    def fresh(self, stem: str) -> str:
        """A name that nothing has yet."""
        name, count = stem, 1
        while name in self.reserved:
            name, count = f"{stem}_{count}", count + 1
        self.reserved.add(name)
        return name

    def declare(self, name: str, shape: Sequence[int], dtype: str = "float32") -> Value:
        """A value that is an input or an initializer."""
        self.reserved.add(name)
        self.types[name] = TensorType("float32" if dtype == "float32" else "int32", tuple(shape))
        return Value(name, tuple(shape), dtype)

    def constant(self, array: Any, dtype: str = "float32") -> Value:
        """A constant tensor; equal ones are one."""
        wide = "float64" if dtype == "float32" else dtype
        value = np.ascontiguousarray(np.asarray(array, wide))
        key = (dtype, np.shape(array), value.tobytes())
        if key not in self._constants:
            name = self.fresh("constant")
            self.initializers[name] = value.reshape(np.shape(array))
            self._constants[key] = self.declare(name, np.shape(array), dtype)
        return self._constants[key]

    def value(self, operand: Operand, dtype: str = "") -> Value:
        """The operand as a tensor of the graph, by default of its own dtype."""
        if isinstance(operand, Value):
            return operand
        return self.constant(operand, dtype or dtype_of(operand))

    def known(self, x: Operand) -> Array | None:
        """The content of a constant; None for what is computed, trained or fed."""
        if not isinstance(x, Value):
            return np.asarray(x)
        return self.initializers[x.name] if x in self._constants.values() else None

    def emit(
        self, op: str, inputs: Sequence[Operand | None], shape: Sequence[int], dtype: str = "float32", **attrs: Any
    ) -> Value:
        """Add a node with one output of that shape."""
        return self.emit_several(op, inputs, [shape], dtype, **attrs)[0]

    def emit_several(
        self,
        op: str,
        inputs: Sequence[Operand | None],
        shapes: Sequence[Sequence[int] | None],
        dtype: str | Sequence[str] = "float32",
        **attrs: Any,
    ) -> list[Value]:
        """Add a node with an output of each shape, all of one dtype or each of its own.

        Of None it has none, and that is left out of the result.
        """
        names = ["" if x is None else self.value(x).name for x in inputs]
        kinds = [dtype] * len(shapes) if isinstance(dtype, str) else dtype
        outputs = [
            None if shape is None else self.declare(self.fresh(op.lower()), shape, kind)
            for shape, kind in zip(shapes, kinds, strict=True)
        ]
        results = tuple("" if x is None else x.name for x in outputs)
        self._add(Node(self._label(op), op, tuple(names), results, _attributes(attrs)))
        return [x for x in outputs if x is not None]

    def emit_composite(
        self, op: str, inputs: Sequence[Operand | None], shapes: Sequence[Sequence[int]], **attrs: Any
    ) -> list[Value]:
        """Add the nodes that a composite operator stands for, with what their gradients read."""
        names = tuple("" if x is None else self.value(x).name for x in inputs)
        outputs = [self.declare(self.fresh(op.lower()), shape) for shape in shapes]
        self.written_out(Node(self._label(op), op, names, tuple(x.name for x in outputs), _attributes(attrs)))
        return outputs

    def _label(self, op: str) -> str:
        return self.fresh(f"{self.place}/{op}" if self.place else op)

    def _add(self, node: Node) -> None:
        self.nodes.append(node)
        self.makers.update(dict.fromkeys(filter(None, node.outputs), node))

    def maker(self, x: Operand | None, *ops: str) -> Node | None:
        """The node that computes a value, if it is of one of these operators."""
        node = self.makers.get(x.name) if isinstance(x, Value) else None
        return node if node is not None and node.op in ops else None

    def backward(
        self,
        op: str,
        inputs: Sequence[Operand | None],
        outputs: Sequence[Value | None],
        arriving: Sequence[Operand | None],
        wanted: Sequence[int],
        **attrs: Any,
    ) -> tuple[Value | None, ...]:
        """The gradients of some inputs of a node by its operator's own rule, in the order of `wanted`.

        `outputs` are the node's results, which the rule may read, `arriving` their gradients. The node itself is not
        added: it may be part of the graph, or of none. Raises NotDifferentiable where the operator has no rule.
        """
        values = [None if x is None else self.value(x) for x in inputs]
        names = tuple("" if x is None else x.name for x in values)
        label = self._label(op)
        results = tuple(self.fresh(f"{label}/unread") if x is None else x.name for x in outputs)
        douts = tuple("" if x is None else self.value(x).name for x in arriving)
        node = Node(label, op, names, results, _attributes(attrs))
        if operator_of(node).composite:
            written = self.written_out(node)
            return self.pulled(written, dict(zip(results, douts, strict=False)), [names[i] for i in wanted])
        tape = self._tape(names)
        tape.state.types.update({n: self.types.get(n, TensorType("float32", ())) for n in results})
        node = fixed_form(tape.state, node)
        targets = {i: tape.names.fresh(f"{label}/grad_{i}") for i in wanted if names[i : i + 1] != ("",)}
        apply_rule(tape, node, douts, targets)
        self._take(tape)
        given = {i: self._declared(tape, name) for i, name in targets.items()}
        return tuple(given.get(i) for i in wanted)

    def _tape(self, names: Collection[str]) -> Tape:
        """An empty tape over the values of these names."""
        known = {n: a for n, a in self.initializers.items() if n in names}
        return Tape(Resolved(dict(self.types), known), GraphNames(self.reserved))

    def written_out(self, node: Node) -> list[Node]:
        """Add the nodes that a composite operator stands for, with what their gradients read."""
        constants = {n: a for n, a in self.initializers.items() if n in node.inputs}
        added = []
        for plain in _plain_nodes(Resolved(self.types, constants), node):
            if plain.op == "Constant":
                [value] = operator_of(plain).reference(plain, [])
                self.initializers[plain.outputs[0]] = value.astype(np.float64) if value.dtype.kind == "f" else value
                continue
            saving = training_of(plain).training_form(plain, self.fresh)
            rewritten, arrays = input_form(saving, OPSET, self.fresh)
            for name, array in arrays.items():
                self.initializers[name] = array.astype(np.float64) if array.dtype.kind == "f" else array
                self.types[name] = TensorType("float32" if array.dtype.kind == "f" else "int32", array.shape)
            operator = operator_of(saving)
            types = operator.infer(saving, [self.types[n] if n else None for n in saving.inputs])
            self.types.update({n: kind for n, kind in zip(saving.outputs, types, strict=False) if n})
            self.reserved.update(filter(None, saving.outputs))
            self._add(rewritten)
            added.append(rewritten)
        return added

    def pulled(
        self, nodes: Sequence[Node], arriving: Mapping[str, str], sources: Sequence[str]
    ) -> tuple[Value | None, ...]:
        """The gradients of sources of a part of the graph, given those that arrive at its results."""
        tape = self._tape({name for node in nodes for name in node.inputs})
        seeds = {name: dout for name, dout in arriving.items() if dout}
        totals = pull_back(tape, nodes, seeds, sources)
        self._take(tape)
        found = [totals.get(name) for name in sources]
        return tuple(None if name is None else self._declared(tape, name) for name in found)

    def _take(self, tape: Tape) -> None:
        """Add what a gradient rule has written."""
        for name, array in tape.constants.items():
            self.initializers[name] = array.astype(np.float64) if array.dtype.kind == "f" else array
            self.types[name] = tape.state.types[name]
        for node in tape.nodes:
            self.types.update({n: tape.state.types[n] for n in node.outputs if n})
            self._add(node)

    @staticmethod
    def _declared(tape: Tape, name: str) -> Value:
        kind = tape.state.types[name]
        return Value(name, kind.shape, "float32" if kind.dtype == "float32" else "int64")

    def ints(self, numbers: Sequence[int]) -> Value:
        """Axes, a shape or bounds as a constant."""
        return self.constant(np.array(numbers, np.int64), "int64")

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """The elements of x in another shape."""
        if tuple(shape) == x.shape:
            return x
        before = self.maker(x, "Reshape")
        if before is not None:
            source = self._value(before.inputs[0])
            return self.reshape(source, shape)
        known = self.known(x)
        if known is not None:
            return self.constant(known.reshape(shape), x.dtype)
        return self.emit("Reshape", [x, self.ints(shape)], shape, x.dtype)

    def _value(self, name: str, like: Value | None = None) -> Value:
        kind = self.types[name]
        return Value(name, kind.shape, "float32" if kind.dtype == "float32" else like.dtype if like else "int64")

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        """The axes of x in another order."""
        if tuple(order) == tuple(range(x.rank)):
            return x
        known = self.known(x)
        if known is not None:
            return self.constant(known.transpose(order), x.dtype)
        before = self.maker(x, "Transpose")
        if before is not None:  # two in a row are one, or none
            first = before.attrs["perm"]
            assert isinstance(first, tuple)
            return self.transpose(self._value(before.inputs[0], x), [int(first[a]) for a in order])
        moved = [a for a in order if x.shape[a] != 1]
        shape = [x.shape[a] for a in order]
        if moved == sorted(moved):  # no element moves
            return self.reshape(x, shape)
        return self.emit("Transpose", [x], shape, x.dtype, perm=list(order))

    def untransposed(self, x: Value) -> tuple[Value, bool]:
        """The matrix of which x is the transpose, and True; else x itself and False."""
        node = self.maker(x, "Transpose")
        if node is not None and node.attrs["perm"] == (1, 0):
            return self._value(node.inputs[0], x), True
        return x, False

    def slice(self, x: Value, axis: int, begin: int, end: int, step: int = 1) -> Value:
        """Elements begin, begin + step, ... below end along an axis."""
        size = len(range(begin, end, step))
        if size == x.shape[axis] and step > 0:
            return x
        shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
        bounds = [self.ints([n]) for n in (begin, end, axis, step)]
        return self.emit("Slice", [x, *bounds], shape, x.dtype)

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """The parts one behind the other."""
        first = values[0]
        if len(values) == 1:
            return first
        shape = (*first.shape[:axis], sum(p.shape[axis] for p in values), *first.shape[axis + 1 :])
        return self.emit("Concat", values, shape, first.dtype, axis=axis)

    def binary(self, op: str, a: Operand, b: Operand, dtype: str = "") -> Value:
        """An elementwise operator with broadcasting; an integer beside a float becomes one."""
        kinds = {dtype_of(a), dtype_of(b)}
        common = common_dtype(kinds)
        x, y = (self.cast(v, common) if isinstance(v, Value) else self.constant(v, common) for v in (a, b))
        shape = np.broadcast_shapes(x.shape, y.shape)
        x = self.compact(x, y.shape, shape)
        y = self.compact(y, x.shape, shape)
        return self.emit(op, [x, y], shape, dtype or common)

    def aligned(self, a: Operand, b: Operand) -> tuple[Value, Value]:
        """Both operands in the dtype of what is computed from them."""
        common = common_dtype({dtype_of(a), dtype_of(b)})
        return self.cast(a, common), self.cast(b, common)

    def choose(self, condition: Operand, a: Operand, b: Operand) -> Value:
        """a where the condition holds, else b."""
        (x, y), c = self.aligned(a, b), self.cast(condition, "bool")
        return self.emit("Where", [c, x, y], np.broadcast_shapes(c.shape, x.shape, y.shape), x.dtype)

    def expand(self, x: Value, shape: Sequence[int]) -> Value:
        """Axes of one element repeated, and new ones in front."""
        if tuple(shape) == x.shape:
            return x
        known = self.known(x)
        if known is not None and known.size == 1:
            return self.constant(np.broadcast_to(known.reshape(()), tuple(shape)), x.dtype)
        return self.emit("Expand", [x, self.ints(shape)], shape, x.dtype)

    def compact(self, x: Value, other: Sequence[int], shape: Sequence[int]) -> Value:
        """One number for equal elements, one part for equal parts of the first axes, and the source of what was
        expanded, where broadcasting does it.
        """
        known = self.known(x)
        if known is not None and known.size > 1 and tuple(other) == tuple(shape):
            return self.constant(known.flat[0] if (known == known.flat[0]).all() else one_of_equal(known), x.dtype)
        node = self.maker(x, "Expand")
        if node is not None and np.broadcast_shapes(self.types[node.inputs[0]].shape, other) == tuple(shape):
            return self._value(node.inputs[0], x)
        return x

    def named(self, x: Value) -> Value:
        """The value as the result of a node, under a name of its own."""
        return x if x.name in self.makers else self.emit("Identity", [x], x.shape, x.dtype)

    def cast(self, x: Operand, dtype: str) -> Value:
        """The elements in another dtype; those of floats become integers towards zero, as in C."""
        if not isinstance(x, Value):
            return self.constant(np.asarray(x).astype(_NUMPY[dtype]), dtype)
        if x.dtype == dtype:
            return x
        known = self.known(x)
        if known is not None:
            return self.constant(known.astype(_NUMPY[dtype]), dtype)
        if dtype == "bool":
            zero = self.constant(0, x.dtype)
            return self.emit("Not", [self.emit("Equal", [x, zero], x.shape, "bool")], x.shape, "bool")
        whole = self.maker(x, "Cast") if dtype == "float32" else None
        if whole is not None and self.maker(self._value(whole.inputs[0]), "ReduceSum") is not None:
            return self._value(whole.inputs[0])  # a sum of integers, which is made of floats
        to = onnx.TensorProto.FLOAT if dtype == "float32" else onnx.TensorProto.INT32
        return self.emit("Cast", [x], x.shape, dtype, to=int(to))

    def unary(self, op: str, x: Operand, **attrs: Any) -> Value:
        """An elementwise operator of one tensor."""
        value = self.value(x)
        return self.emit(op, [value], value.shape, value.dtype, **attrs)

    def reduce(self, op: str, x: Value, axes: Sequence[int], keep: bool) -> Value:
        """A reduction over axes; over all where there are none."""
        of = sorted({x.axis(a) for a in axes}) or list(range(x.rank))
        of = [a for a in of if a < x.rank]
        shape = [1 if a in of else n for a, n in enumerate(x.shape) if keep or a not in of]
        if not of:
            return self.unary("Abs", x) if op in ("ReduceL1", "ReduceL2") else x
        return self.emit(op, [x, self.ints(of)], shape, x.dtype, keepdims=int(keep))

    def dropout(self, x: Operand, share: float, train: bool | None = True) -> Value:
        """The elements of x of which a share is dropped at random in training, and the others scaled."""
        value = self.value(x)
        if not (share and train and self.drops):
            return value
        if share == 1:
            return self.binary("Mul", value, 0.0)
        return self.emit("Dropout", [value, float(np.float32(share)), self.constant(True, "bool")], value.shape)

    def refusal(self, reason: str, hint: str) -> UnsupportedOperator:
        """The error for a variant of the operator that is walked now."""
        return UnsupportedOperator(f"{self.operator}: {reason}", [("in", self.place or "the module")], hint)

    def model(self, inputs: Sequence[Value], outputs: Sequence[Value], keep: Collection[str] = ()) -> onnx.ModelProto:
        """The whole as a model, without what no output depends on but for initializers to `keep`."""
        nodes = live_nodes(self.nodes, [x.name for x in outputs], {}, lambda node: False)
        values = [
            onnx.helper.make_tensor_value_info(x.name, self._element(x.dtype), x.shape) for x in (*inputs, *outputs)
        ]
        read = {name for node in nodes for name in node.inputs} | {x.name for x in outputs} | set(keep)
        arrays = [numpy_helper.from_array(self._narrow(a), n) for n, a in self.initializers.items() if n in read]
        first = len(inputs)
        protos = list(map(node_proto, nodes))
        graph = onnx.helper.make_graph(protos, "module", values[:first], values[first:], arrays)
        opsets = [onnx.helper.make_opsetid("", OPSET)]
        opsets += [onnx.helper.make_opsetid(domain, 1) for domain in sorted({p.domain for p in protos} - {""})]
        return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)

    def _element(self, dtype: str) -> int:
        """ONNX's type in a file: of integers that a step computes with, the one that targets have."""
        name = "int32" if self.saves and dtype == "int64" else dtype
        return int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(name)))

    def _narrow(self, array: Array) -> Array:
        if array.dtype.kind == "f":
            return array.astype(np.float32)
        narrow = array.astype(np.int32) if array.dtype.kind == "i" and self.saves else array
        return narrow if (narrow == array).all() else array  # what int32 does not hold is refused where it is read


def _plain_nodes(state: Resolved, node: Node) -> Iterator[Node]:
    """The nodes that a composite one stands for, in a form with static inputs as attributes; types go to `state`."""
    operator = operator_of(node)
    fixed = static_form(state, replace(node, op=operator.name), operator)
    inputs = [state.types[n] if n else None for n in fixed.inputs]
    types = operator.infer(fixed, inputs)
    lowered = operator.lower(fixed, inputs) if operator.composite else None
    if lowered:
        for lowered_node in lowered:
            yield from _plain_nodes(state, lowered_node)
        return
    state.types.update({n: kind for n, kind in zip(fixed.outputs, types, strict=False) if n})
    if fixed.op == "Constant":
        [state.constants[fixed.outputs[0]]] = operator.reference(fixed, [])
    yield fixed


_NUMPY: dict[str, Any] = {"float32": np.float64, "int64": np.int64, "bool": np.bool_}
"""The type in which constants of each dtype are kept."""


def dtype_of(x: Operand) -> str:
    """The dtype of an operand, in the words of `Value`."""
    if isinstance(x, Value):
        return x.dtype
    kind = np.asarray(x).dtype.kind
    return "float32" if kind == "f" else "bool" if kind == "b" else "int64"


def common_dtype(kinds: Collection[str]) -> str:
    """The dtype of what is computed from operands of these, in the words of `Value`."""
    return "float32" if "float32" in kinds else "int64" if "int64" in kinds else "bool"


def one_of_equal(array: Array) -> Array:
    """The first part along each leading axis whose parts are all equal, for what broadcasts, such as masks."""
    for axis in range(array.ndim - 1):
        first = array.take([0], axis)
        if not (array == first).all() or (np.signbit(array) != np.signbit(first)).any():
            break
        array = first
    return array


def _attributes(attrs: Mapping[str, Any]) -> dict[str, AttrValue]:
    """Attributes as a node has them: tuples for lists, and none for those that are not given."""
    return {n: tuple(v) if isinstance(v, list) else v for n, v in attrs.items() if v is not None}


Lowering = Callable[..., Any]
"""(graph, *arguments of the ATen operator) -> Value, or a tuple of them where the operator has several results."""
LOWERINGS: dict[str, Lowering] = {}


_Lowering = TypeVar("_Lowering", bound=Lowering)


def lowers(*names: str) -> Callable[[_Lowering], _Lowering]:
    """Register the lowering of ATen operators by name, without overload: `relu` is `aten.relu` in all its forms."""

    def register(function: _Lowering) -> _Lowering:
        for name in names:
            if name in LOWERINGS:
                raise ValueError(f"aten.{name} has a lowering already")
            LOWERINGS[name] = _with_values(function)
        return function

    return register


TENSORS = (Value, Value | None)
"""Annotations of arguments that are tensors of the graph."""


def _with_values(function: Lowering) -> Lowering:
    """The function, with known arrays and numbers as constants where an argument is annotated as a Value."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    places = {i: p.name for i, p in enumerate(parameters) if p.annotation in TENSORS}
    lists = {i: p.name for i, p in enumerate(parameters) if p.annotation == Sequence[Value]}

    @functools.wraps(function)
    def lowering(g: GraphBuilder, *arguments: Any, **options: Any) -> Any:
        def given(key: Any, x: Any) -> Any:
            if key in places or key in places.values():
                return x if x is None else g.value(x)
            if key in lists or key in lists.values():
                return [g.value(item) for item in x]
            return x

        read = [given(i, x) for i, x in enumerate(arguments)]
        return function(g, *read, **{name: given(name, x) for name, x in options.items()})

    return lowering
