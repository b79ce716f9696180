"""Elementwise operators declared by a formula: reference, kernel, work, gradient and samples follow from it."""

import re
from abc import ABC
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, TypeVar, cast

import numpy as np

from deployer.core.access import Access
from deployer.core.errors import InternalError
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel import ArgValue, Const, CType, Kernel, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, GradientBuilder, Operator, mismatch, register, registry, unsupported
from deployer.core.signatures import Signature
from deployer.core.traits.file import FileSpec
from deployer.core.traits.numerics import NO_NUMERICS, DecisionBoundaries
from deployer.expressions.derivative import ZERO, derivative, times
from deployer.expressions.formula import Formula, Input, attributes_of, divisors_of, inputs_of, work_of
from deployer.expressions.tree import replaced
from deployer.expressions.values import evaluate
from deployer.operators.base.elementwise import Broadcasting, Flat
from deployer.operators.base.operands import normal

X, Y, DY = Input("x"), Input("y"), Input("dy")
A, B = Input("a"), Input("b")
BOOLS = Input("a", "int32"), Input("b", "int32")
INTEGERS = Input("a", "int32", is_int=True), Input("b", "int32", is_int=True)


def _decision_boundaries(
    cls: type["ElementwiseFormula"], node: Node, inputs: Sequence[Array | None]
) -> tuple[DecisionBoundaries, ...]:
    """Return each element's distance to its non-differentiable points, and the nearest float beyond them."""
    named = {operand.name: x for operand, x in zip(cls.operands, inputs, strict=False) if x is not None}
    least = float(np.finfo(np.float32).tiny)
    rows = []
    for position, operand in enumerate(cls.operands):
        for kink in cls.non_differentiable.get(operand.name, ()):
            x, border = np.broadcast_arrays(named[operand.name], evaluate(kink, named, cls.values(node)))
            places = np.arange(named[operand.name].size).reshape(named[operand.name].shape)
            with np.errstate(invalid="ignore"):  # a kink at infinity, or none
                step = np.maximum(np.spacing(np.abs(border)), least) * np.where(x > border, -1, 1)
                margins, flipped = np.abs(x - border).reshape(-1), (border + step).reshape(-1)
            rows.append(DecisionBoundaries(position, np.broadcast_to(places, x.shape).reshape(-1), margins, flipped))
    return tuple(rows)


class ElementwiseFormula(Operator, ABC):
    """An elementwise operator by its `formula` over `operands`, in the order of the node's inputs.

    `defaults` are the attributes that the formula reads, with their values where the node has none. Where the value or
    the slope jumps, `non_differentiable` gives for an input the places as formulas. `derivatives` holds, for inputs
    whose derivative is better said than derived, the gradient from the operands, `Y` and `DY`. `integers` says that
    ONNX's operator takes integers as well. `spread` is the standard deviation of samples, `trials` are the attributes
    of more of them. `declared_by` names the operator that this one follows from. `further` are results behind the
    first, with the kernel's names for them.
    """

    formula: ClassVar[Formula]
    operands: ClassVar[tuple[Input, ...]] = (X,)
    defaults: ClassVar[Mapping[str, float]] = {}
    non_differentiable: ClassVar[Mapping[str, tuple[Formula, ...]]] = {}
    derivatives: ClassVar[Mapping[str, Formula]] = {}
    integers: ClassVar[bool] = False
    spread: ClassVar[float] = 1.0
    trials: ClassVar[tuple[Mapping[str, float], ...]] = ()
    declared_by: ClassVar[str] = ""
    backward: ClassVar[Mapping[str, "type[ElementwiseFormula] | None"]] = {}
    result: ClassVar[str] = "y"
    further: ClassVar[Mapping[str, Formula]] = {}

    @classmethod
    def formulas(cls) -> tuple[Formula, ...]:
        """Those of all results."""
        return (cls.formula, *cls.further.values())

    @classmethod
    def values(cls, node: Node) -> dict[str, float]:
        """The value of each attribute that the formula reads."""
        return {name: node.attr_float(name, float(np.float32(default))) for name, default in cls.defaults.items()}

    def types(self, node: Node, inputs: Sequence[TensorType | None]) -> list[TensorType]:
        """The types of the operands; an error where one is absent or of another type, or a divisor is 0."""
        values = self.values(node)
        zeros = [name for name in divisors_of(self.formula) if np.float32(values[name]) == 0]
        if zeros:
            raise unsupported(node, f"it divides by {zeros[0]!r}, which is 0 in float32", "another number")
        present = [kind for kind in inputs[: len(self.operands)] if kind is not None]
        if len(present) < len(self.operands):
            raise mismatch(node, f"needs {len(self.operands)} inputs, has {len(present)}", inputs)
        reals = [kind for kind, operand in zip(present, self.operands, strict=True) if operand.kind == "float"]
        truths = [kind for kind, operand in zip(present, self.operands, strict=True) if operand.kind == "bool"]
        if len({kind.dtype for kind in reals}) > 1:
            raise mismatch(node, "operands differ in dtype", inputs)
        if any(kind.dtype != "float32" for kind in reals) and not self.integers:
            raise unsupported(node, f"its operands are {', '.join(map(str, present))}", "float32 operands")
        if any(kind.dtype != "int32" for kind in truths):
            raise unsupported(node, f"its operands are {', '.join(map(str, present))}", "truths, which are int32 here")
        wholes = [kind for kind, operand in zip(present, self.operands, strict=True) if operand.kind == "int"]
        if any(kind.dtype != "int32" for kind in wholes):
            raise unsupported(node, f"its operands are {', '.join(map(str, present))}", "integers")
        return present

    def dtype(self, present: Sequence[TensorType]) -> str:
        """The element type of the result."""
        if self.formula.kind != "float":
            return "int32"
        return next(k.dtype for k, operand in zip(present, self.operands, strict=True) if operand.kind == "float")

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The formulas in numpy."""
        named = {operand.name: x for operand, x in zip(self.operands, inputs, strict=False) if x is not None}
        return tuple(evaluate(formula, named, self.values(node)) for formula in self.formulas())

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The form's own, and the attributes."""
        values: dict[str, ArgValue] = super().args(node, access)
        return values | {name: Const(float(np.float32(value))) for name, value in self.values(node).items()}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """The formulas' operations for each element."""
        plain = super().work(node, access, tile, model)
        return Work(macs=0, elements=plain.elements * work_of(self.formulas(), model), parallel=plain.parallel)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """The derivative of the formula, summed over the axes along which an operand was broadcast."""
        sources = dict(zip((operand.name for operand in self.operands), node.inputs, strict=False))
        sources |= {DY.name: douts[0], Y.name: node.outputs[0]}
        attrs = {name: value for name, value in node.attrs.items() if name in self.defaults}
        shape = b.type(douts[0]).shape
        wanted = [place for place, x in enumerate(self.operands) if x.name in self.backward and b.needs_grad(place)]
        for position in wanted:
            rule, kind = self.backward[self.operands[position].name], b.type(node.inputs[position])
            if rule is None:
                zero = b.constant("zero", np.array(0, np.float32))
                b.emit("Expand", (zero, b.constant("shape", np.array(kind.shape, np.int64))), (b.grad(position),))
            else:
                whole = b.grad(position) if kind.shape == shape else b.temp("each")
                used = {name: value for name, value in attrs.items() if name in rule.defaults}
                b.emit(rule.name, [sources[x.name] for x in rule.operands], (whole,), **used)
                if whole != b.grad(position):
                    b.reduce_to(whole, kind.shape, b.grad(position))

    def sample_attributes(self) -> Iterator[tuple[str, dict[str, AttrValue]]]:
        """Attributes of samples with a label: none, and each of the trials."""
        yield "", {}
        for number, trial in enumerate(self.trials):
            yield f"_{number}", dict(trial)

    def drawn(self, generator: np.random.Generator, operand: Input, shape: tuple[int, ...]) -> Array:
        """Values of an operand for samples: normal ones, truths, or integers."""
        if operand.kind == "bool":
            return generator.integers(0, 2, shape).astype(np.int32)
        if operand.kind == "int":
            return generator.integers(-9, 10, shape).astype(np.int32)
        return np.asarray(normal(generator, *shape) * np.float32(self.spread), np.float32)


class Pointwise(ElementwiseFormula, Flat):
    """A declared operator over operands of one shape."""

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The shape of all operands, for each result."""
        present = self.types(node, inputs)
        if len({kind.shape for kind in present}) > 1:
            raise mismatch(node, "operands differ in shape", inputs)
        return (TensorType(self.dtype(present), present[0].shape),) * len(self.formulas())


SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "equal": ((5, 7), (5, 7), (5, 7)),
    "scalar": ((3, 11), (), (3, 11)),
    "row": ((6, 13), (13,), (6, 13)),
    "channels": ((2, 3, 5, 7), (3, 1, 1), (2, 1, 1, 1)),
}
"""Shapes of up to three operands that broadcast."""


class BroadcastElementwise(ElementwiseFormula, Broadcasting):
    """A declared operator over operands that broadcast as numpy's."""

    shapes: ClassVar[Mapping[str, tuple[tuple[int, ...], ...]]] = SHAPES

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The broadcast shape of all operands."""
        present = self.types(node, inputs)
        try:
            return (TensorType(self.dtype(present), np.broadcast_shapes(*(kind.shape for kind in present))),)
        except ValueError:
            raise mismatch(node, "operands do not broadcast", inputs) from None


D = TypeVar("D", bound=type[ElementwiseFormula])


def elementwise(cls: D) -> D:
    """Complete the class of a formula: its kernel, the operators of its backward pass; and register them."""
    cls.kernel = _kernel(cls)
    if cls.non_differentiable:
        found = partial(_decision_boundaries, cls)
        cls.numerics = replace(cls.numerics or NO_NUMERICS, decision_boundaries=found)
    if cls.no_gradient:
        cls.gradient = Operator.gradient  # type: ignore[method-assign]
    else:
        cls.backward = {x.name: _backward(cls, x) for x in cls.operands if x.kind == "float"}
    register(cls)
    for rule in cls.backward.values():
        if rule is not None:
            register(rule)
    return cls


def derived(cls: type[ElementwiseFormula], operand: Input) -> type[ElementwiseFormula]:
    """The operator that gives an operand of a complete class its gradient."""
    rule = cls.backward[operand.name]
    if rule is None:
        raise InternalError(f"operator {cls.name} has no gradient of {operand.name}")
    return rule


def _backward(cls: type[ElementwiseFormula], operand: Input) -> type[ElementwiseFormula] | None:
    """The operator that gives an input its gradient; None where that is zero everywhere."""
    slope = derivative(cls.formula, operand)
    formula = cls.derivatives.get(operand.name, replaced(times(DY, slope), cls.formula, Y))
    if formula == ZERO:
        return None
    used = inputs_of(formula)
    read = attributes_of(formula)
    several = sum(x.kind == "float" for x in cls.operands) > 1
    name = f"{cls.name}Grad{operand.name.title() if several else ''}"
    operands = tuple(x for x in (DY, *cls.operands, Y) if x in used or x == DY)
    body: dict[str, object] = {
        "__module__": cls.__module__,
        "__doc__": f"The gradient of {operand.name} of {cls.name}.",
        "name": name,
        "formula": formula,
        "operands": operands,
        "defaults": {key: value for key, value in cls.defaults.items() if key in read},
        "file": FileSpec(custom=Signature((len(operands), len(operands)), (1, 1), dict.fromkeys(read, "FLOAT"))),
        "gradient": Operator.gradient,
        "no_gradient": "it belongs to a backward pass",
        "declared_by": cls.name,
        "result": f"d{operand.name}",
    }
    rule = cast("type[ElementwiseFormula]", type(name, (_base(cls),), body))
    rule.kernel = _kernel(rule)
    return rule


def _base(cls: type[ElementwiseFormula]) -> type[ElementwiseFormula]:
    return Pointwise if issubclass(cls, Pointwise) else BroadcastElementwise


def _kernel(cls: type[ElementwiseFormula]) -> Kernel:
    """The kernel that is printed from the formula: operands, result, what its form takes, and the attributes."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls.name).lower()
    kind = "float32" if cls.formula.kind == "float" else "int32"
    pointers = (
        *((x.name, x.dtype, False) for x in cls.operands),
        *((name, kind, True) for name in (cls.result, *cls.further)),
    )
    base = Flat if issubclass(cls, Flat) else Broadcasting
    scalars: list[tuple[str, CType]] = list(base.base_scalars([name for name, _, _ in pointers]))
    bits = "i32" if any(x.kind == "int" for x in cls.operands) else "f32"
    return Kernel(f"{words}_{bits}", pointers, (*scalars, *((name, "f32") for name in cls.defaults)))


def printed_kernels() -> dict[str, ElementwiseFormula]:
    """The operators whose kernels are printed from formulas, by the kernel's symbol."""
    kinds = (op for op in registry().values() if ElementwiseFormula in type(op).__mro__)  # isinstance asks subclasses
    found = (cast(ElementwiseFormula, op) for op in kinds)
    return {op.kernel.symbol: op for op in found if op.kernel is not None}


class Chained(BroadcastElementwise):
    """A declared operator of two operands whose node may have more of them, or one."""

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The broadcast shape of all operands."""
        if not inputs or inputs[0] is None:
            raise mismatch(node, "has no operands", inputs)
        result = inputs[0]
        for other in inputs[1:]:
            (result,) = super().infer(node, (result, other))
        return (result,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """f(f(A, B), C), ..."""
        result, *others = (x for x in inputs if x is not None)
        for other in others:
            (result,) = super().reference(node, (result, other))
        return (np.asarray(result),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """None for two operands, which the kernel takes; a chain for more, an Identity for one."""
        first, *others = node.inputs
        if len(others) == 1:
            return super().lower(node, inputs)
        if not others:
            return [replace(node, op="Identity")]
        nodes = []
        for number, other in enumerate(others, 1):
            last = number == len(others)
            out = node.outputs[0] if last else f"{node.outputs[0]}/link{number}"
            nodes.append(Node(node.name if last else f"{node.name}/link{number}", node.op, (first, other), (out,)))
            first = out
        return nodes

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """From the last link to the first; what the links before gave is computed again."""
        if len(node.inputs) == 1:
            b.reduce_to(douts[0], b.type(node.inputs[0]).shape, b.grad(0))
            return
        firsts = [node.inputs[0]]
        for name in node.inputs[1:-1]:
            firsts.append(b.temp("link"))
            b.emit(self.name, (firsts[-2], name), (firsts[-1],))
        dy, result = douts[0], node.outputs[0]
        for place in range(len(firsts) - 1, -1, -1):
            names = (firsts[place], node.inputs[place + 1])
            sources = dict(zip((x.name for x in self.operands), names, strict=True)) | {Y.name: result}
            before, after = (self.backward[x.name] for x in self.operands)
            if b.needs_grad(place + 1):
                self._link(after, {**sources, DY.name: dy}, names[1], b.grad(place + 1), b)
            if place and any(b.needs_grad(index) for index in range(place + 1)):
                further = b.temp("further")
                self._link(before, {**sources, DY.name: dy}, names[0], further, b)
                dy, result = further, names[0]
            elif b.needs_grad(0):
                self._link(before, {**sources, DY.name: dy}, names[0], b.grad(0), b)

    def _link(
        self, rule: type[ElementwiseFormula] | None, sources: dict[str, str], operand: str, out: str, b: GradientBuilder
    ) -> None:
        """The gradient of an operand of one link."""
        assert rule is not None
        whole = b.temp("each")
        b.emit(rule.name, [sources[x.name] for x in rule.operands], (whole,))
        b.reduce_to(whole, b.type(operand).shape, out)
