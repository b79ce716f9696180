"""The definition of operators: each is one class, with shapes, meaning, gradient, access, work, kernel and samples."""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import onnx

from deployer.core.access import Access
from deployer.core.errors import DeployerError, InternalError, NotDifferentiable, ShapeMismatch, UnsupportedOperator
from deployer.core.files.roles import FileRoles
from deployer.core.ir import DTYPES, AttrValue, Node, TensorType
from deployer.core.kernel_model import KernelModel
from deployer.core.packages import PackageProblem, kernel_folders, walk
from deployer.core.safe_text import identifier
from deployer.core.samples import Sample, measured, registered_samples, registered_sweep
from deployer.core.signatures import (
    MICROSOFT,
    Extra,
    FusionTrait,
    IntegerRange,
    Rule,
    Signature,
    TrainEval,
    UpdateFusion,
)
from deployer.core.traits import (
    Accumulator,
    Counter,
    Discontinuities,
    FanInOut,
    Fusible,
    Loss,
    OperandSpec,
    Optimizer,
    Recomputed,
    Sums,
    UpdateNumber,
)

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Const:
    """A kernel argument known at compile time."""

    value: int | float


@dataclass(frozen=True)
class Extent:
    """Length of the tile along a dim."""

    dim: str


@dataclass(frozen=True)
class Start:
    """First index of the tile along a dim."""

    dim: str


@dataclass(frozen=True)
class Stride:
    """Elements between neighbours along a view axis of an operand's buffer; 0 on a broadcast axis."""

    arg: str
    axis: int


@dataclass(frozen=True)
class First:
    """1 on the first tile of all reductions together, else 0."""


@dataclass(frozen=True)
class Last:
    """1 on the last tile of all reductions together, else 0."""


@dataclass(frozen=True)
class Offset:
    """Index at which a tile's windows begin on an axis, relative to the operand's box; see `offset` of the axis."""

    arg: str
    axis: int


@dataclass(frozen=True)
class Length:
    """Length of an operand's box along an axis."""

    arg: str
    axis: int


@dataclass(frozen=True)
class Flag:
    """The lazy-reset flag of the running pass, 0 or 1."""


ArgValue = Const | Extent | Start | Stride | First | Last | Offset | Length | Flag | UpdateNumber
CType = Literal["u32", "i32", "f32"]
SCALARS: dict[CType, int] = {"u32": 4, "i32": 4, "f32": 4}
"""Bytes of scalars in an argument struct."""


@dataclass(frozen=True)
class Kernel:
    """A C kernel: its symbol and the fields of its argument struct.

    `pointers` are (name, dtype, whether the kernel writes it) and `scalars` (name, C type), both in argument order;
    generated headers print exactly these.
    """

    symbol: str
    pointers: tuple[tuple[str, str, bool], ...]
    scalars: tuple[tuple[str, CType], ...]

    def __post_init__(self) -> None:
        """Refuse names that are no identifiers of C: a kernel may come from a file."""
        for name in (self.symbol, *(p[0] for p in self.pointers), *(s[0] for s in self.scalars)):
            identifier(name)

    def element_bytes(self, arg: str) -> int:
        """Bytes of an element behind a pointer."""
        return next(DTYPES[dtype] for name, dtype, _ in self.pointers if name == arg)

    def table_bytes(self, pointer_bytes: int) -> int:
        """Bytes of one argument struct on a target with pointers of that size."""
        return len(self.pointers) * pointer_bytes + sum(SCALARS[kind] for _, kind in self.scalars)


def function_name(symbol: str, variant: str) -> str:
    """Return the C function of a kernel, or of a variant of it."""
    return f"{symbol}_{variant}" if variant else symbol


@dataclass(frozen=True)
class Work:
    """The work of the kernel on one tile.

    It is `macs` multiply-accumulates and `elements` other element operations, in `parallel` pieces that cores share.
    `form` names a class of shapes with costs of its own. `overhead_macs` is overhead in multiply-accumulates, of
    incomplete blocks or to finish an output; `inner_loop_starts` is how often cores begin an inner loop. `then` follows
    in another form.
    """

    macs: int
    elements: int
    parallel: int
    form: str = ""
    overhead_macs: int = 0
    inner_loop_starts: int = 0
    then: "Work | None" = None

    @property
    def products(self) -> int:
        """Multiply-accumulates, with the overhead."""
        return self.macs + self.overhead_macs


class GradientBuilder(Protocol):
    """The operations of a gradient rule. `autodiff.py` implements them."""

    def type(self, name: str) -> TensorType:
        """dtype and shape of any value."""

    def needs_grad(self, index: int) -> bool:
        """Whether the gradient of this input is needed."""

    def grad(self, index: int) -> str:
        """Name under which the rule must produce the gradient of this input."""

    def temp(self, label: str) -> str:
        """A fresh name for a value in between."""

    def emit(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attrs: AttrValue) -> None:
        """Append a node to the backward graph."""

    def constant(self, label: str, value: Array) -> str:
        """A constant tensor."""

    def reduce_to(self, name: str, shape: tuple[int, ...], out: str) -> None:
        """Produce `out` as the sum of `name` over the axes along which `shape` was broadcast."""


class Operator(
    Discontinuities, OperandSpec, TrainEval, IntegerRange, Fusible, FusionTrait, UpdateFusion, FanInOut, FileRoles, ABC
):
    """One operator. A subclass fills every part and is registered by `@register`.

    `static_inputs` maps an input position that must be constant to the attribute it becomes; `inplace` maps an output
    to the input whose memory it overwrites; `aliases` are further op_types with the same meaning. `flags` are the
    attributes that are 0 or 1, `unbounded` those that may be infinite or NaN; `recomputed` says what inputs stand for.

    Nodes in files: `versions` are the versions of ONNX's operator with the meaning of this class. `older` maps each
    other version to a rule that expresses it by today's operators. `custom` is the form of a node in `domain`, or in a
    default domain that lacks it; an operator with none of these is internal. `extras` are attributes beyond the form.
    Where `domain` is empty, exporters write the custom form in the default domain, and `com.microsoft` is read too.

    Roles: a `loss`, an `optimizer`, an `accumulator`, a `counter`, `sums` in an order. `literal` says that
    a node is a constant, `type_only` that its result depends on the type of its input alone.
    """

    name: ClassVar[str]
    versions: ClassVar[tuple[int, ...]] = ()
    older: ClassVar[Mapping[int, Rule]] = {}
    custom: ClassVar[Signature | None] = None
    domain: ClassVar[str] = MICROSOFT
    extras: ClassVar[tuple[Extra, ...]] = ()
    loss: ClassVar[Loss | None] = None
    optimizer: ClassVar[Optimizer | None] = None
    accumulator: ClassVar[Accumulator | None] = None
    counter: ClassVar[Counter | None] = None
    sums: ClassVar[Sums | None] = None
    literal: ClassVar[bool] = False
    type_only: ClassVar[bool] = False
    kernel: ClassVar[Kernel | None] = None
    static_inputs: ClassVar[dict[int, str]] = {}
    inplace: ClassVar[dict[int, int]] = {}
    view: ClassVar[bool] = False
    aliases: ClassVar[tuple[str, ...]] = ()
    recomputed: ClassVar[Mapping[int, Recomputed]] = {}
    flags: ClassVar[tuple[str, ...]] = ()
    unbounded: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Types of all outputs; raises ShapeMismatch or UnsupportedOperator with the node's name."""

    @abstractmethod
    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The meaning in numpy, in the dtype of the inputs."""

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """Append the backward nodes; `douts` holds the gradient of each output, empty where none arrives."""
        raise NotDifferentiable(f"node {node.name!r} ({self.name}) has no gradient: {self.no_gradient}")

    no_gradient: ClassVar[str] = ""

    def training_form(self, node: Node, fresh: Callable[[str], str]) -> Node:
        """The node with the outputs that its gradient reads, under names from `fresh`; by default the node itself."""
        return node

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Nodes of other operators with the same outputs, or None when this operator has a kernel or is a view."""
        return None

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """The iteration space and operand maps."""
        raise InternalError(f"operator {self.name} has no access")

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """A value for each scalar of the kernel's argument struct."""
        raise InternalError(f"operator {self.name} has no kernel arguments")

    def model_args(self, node: Node, access: Access, model: KernelModel) -> dict[str, ArgValue]:
        """Arguments that the target's kernel model decides; they replace those of `args`. Default: none."""
        return {}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """Return the work of a tile of these lengths by kernels of this model."""
        raise InternalError(f"operator {self.name} has no work")

    def samples(self) -> Iterator[Sample]:
        """Uses for tests; by default those that a module `samples` beside the operator's registers for its class."""
        found = registered_samples(self)
        if found is None:
            raise _misfit(type(self), f"operator {self.name} has no samples", ())
        return found

    def sweep(self) -> Iterator[Sample]:
        """Uses to measure the kernel's cost."""
        found = registered_sweep(self)
        return self.usual_sweep() if found is None else found

    def usual_sweep(self) -> Iterator[Sample]:
        """The samples, or vectors of many lengths if all inputs have one shape."""
        first, *_ = samples = list(self.samples())
        shapes = {x.shape for x in first.inputs if x is not None and x.size > 1}
        if len(shapes) != 1:
            yield from samples
            return
        for (size,) in measured("vectors"):
            inputs = [x if x is None or x.size == 1 else np.resize(x, size) for x in first.inputs]
            yield Sample(f"n{size}", tuple(inputs), first.attrs, first.outputs, onnx=False)


_REGISTRY: dict[str, Operator] = {}
C = TypeVar("C", bound=type[Operator])


def register(cls: C) -> C:
    """Add an operator to the registry. A missing part or a name in use is a PackageProblem; for an operator of the
    deployer itself it is an InternalError.
    """
    missing = []
    if cls.kernel is not None:
        missing += [part for part in ("access", "args", "work") if getattr(cls, part) is getattr(Operator, part)]
    elif not cls.view and cls.lower is Operator.lower:
        missing.append("kernel, view or lower")
    if cls.gradient is Operator.gradient and not (cls.no_gradient or cls.composite):
        missing.append("gradient or no_gradient")
    if onnx.defs.has(cls.name) and not cls.versions:
        missing.append("versions")
    missing += sorted(cls.__abstractmethods__)
    if missing:
        raise _misfit(cls, f"operator {cls.__name__} lacks {', '.join(missing)}", ())
    for what, other in _conflicts(cls):
        both = ("first", type(other)), ("second", cls)
        facts = [(which, f"{kind.__module__}.{kind.__qualname__}") for which, kind in both]
        raise _misfit(cls, f"{what} is registered twice", facts)
    operator = cls()
    _REGISTRY.update(dict.fromkeys((cls.name, *cls.aliases), operator))
    return cls


def _conflicts(cls: type[Operator]) -> Iterator[tuple[str, Operator]]:
    """Names and roles that the operator claims, each with the operator that has it already."""
    for name in (cls.name, *cls.aliases):
        if name in _REGISTRY:
            yield f"operator {name}", _REGISTRY[name]
    for other in _REGISTRY.values():
        if cls.loss and other.loss and cls.loss.choice == other.loss.choice:
            yield f"loss {cls.loss.choice!r}", other
        if cls.optimizer and other.optimizer and cls.optimizer.clash(other.optimizer):
            yield cls.optimizer.clash(other.optimizer), other
        if cls.accumulator and other.accumulator and cls.accumulator.usual and other.accumulator.usual:
            yield "the accumulator that is written", other
        if cls.counter and other.counter:
            yield "the counter of updates", other
        if cls.kernel and other.kernel and cls.kernel.symbol == other.kernel.symbol and cls.kernel != other.kernel:
            yield f"kernel {cls.kernel.symbol}, with other arguments,", other


def _misfit(cls: type[Operator], cause: str, facts: Sequence[tuple[str, str]]) -> DeployerError:
    """The error for a faulty operator: InternalError for the deployer's own, PackageProblem for a package's."""
    if cls.__module__.startswith("deployer."):
        return InternalError(cause, facts)
    return PackageProblem(cause, [*facts, ("module", cls.__module__)], "correct it, or remove the package")


@cache
def registry() -> Mapping[str, Operator]:
    """All operators by op_type: those of the packages below `deployer.operators`, and those of other distributions."""
    walk(importlib.import_module("deployer.operators"))
    kernel_folders()
    return dict(sorted(_REGISTRY.items()))


def losses() -> dict[str, Operator]:
    """Losses by their names on the command line."""
    return dict(sorted((op.loss.choice, op) for op in registry().values() if op.loss))


def optimizers() -> dict[str, Operator]:
    """Optimizers by their names on the command line, the usual one first; of one name that with the fewest settings."""
    found = [(not o.usual, o.choice, -len(o.settings), op) for op in registry().values() if (o := op.optimizer)]
    return {choice: op for _, choice, _, op in sorted(found, key=lambda entry: entry[:3])}


def usual_accumulator() -> Operator:
    """The accumulator that stands in the training graphs that this compiler makes."""
    return next(op for op in registry().values() if op.accumulator and op.accumulator.usual)


def update_counter() -> Operator:
    """The operator that counts updates."""
    return next(op for op in registry().values() if op.counter)


def sequence_optimizers() -> dict[str, Operator]:
    """Optimizers by the name of their form over sequences."""
    declared = ((op.optimizer.sequences, op) for op in registry().values() if op.optimizer)
    return {form.name: op for form, op in declared if form}


def accumulator_of(node: Node) -> Accumulator | None:
    """The declaration of the node's operator as an accumulator, or None."""
    operator = registry().get(node.op)
    return operator.accumulator if operator else None


def operator_of(node: Node) -> Operator:
    """The operator of a node; UnsupportedOperator where there is none."""
    operators = registry()
    if node.op not in operators:
        raise unsupported(node, "there is no such operator", f"one of {', '.join(operators)}")
    return operators[node.op]


def unsupported(node: Node, why: str, nearest: str) -> UnsupportedOperator:
    """The error for an operator, or a form of it, that the compiler does not support."""
    facts = [("inputs", ", ".join(node.inputs) or "none"), ("attributes", str(node.attrs) if node.attrs else "none")]
    return UnsupportedOperator(f"node {node.name!r} ({node.op}): {why}", facts, nearest, why)


def mismatch(node: Node, why: str, inputs: Sequence[TensorType | None]) -> ShapeMismatch:
    """The error for input types that do not fit a node's meaning."""
    shown = ", ".join(f"{n or '-'} {t or 'absent'}" for n, t in zip(node.inputs, inputs, strict=False))
    return ShapeMismatch(f"node {node.name!r} ({node.op}): {why}", [("inputs", shown)], "correct the graph's shapes")


def rng(seed: int) -> np.random.Generator:
    """The generator samples draw from."""
    return np.random.default_rng(seed)
