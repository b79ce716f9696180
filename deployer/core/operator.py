"""The definition of operators: each is one class, with shapes, meaning, gradient, access, work, kernel and samples."""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import onnx

from deployer.core.access import Access
from deployer.core.errors import DeployerError, InternalError, NotDifferentiable, ShapeMismatch, UnsupportedOperator
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel import ArgValue, Kernel, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.packages import PackageProblem, kernel_folders, walk
from deployer.core.samples import Sample, measured, registered_samples, registered_sweep
from deployer.core.traits.execution import NO_EXECUTION, Execution
from deployer.core.traits.file import INTERNAL, FileSpec
from deployer.core.traits.fusion import Fusion
from deployer.core.traits.numerics import NO_NUMERICS, Numerics
from deployer.core.traits.training import NO_TRAINING, Accumulator, Counter, Loss, Optimizer, Training

Array = npt.NDArray[Any]


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


R = TypeVar("R", bound=Training)


class Operator(ABC):
    """One operator: a small core, which a subclass fills, and five optional traits. `@register` adds it.

    The core is the meaning, with types, gradient and lowered nodes, and the kernel with its access, arguments and work.
    `inplace` maps an output to the input whose memory it overwrites. A `view` gives the same elements another shape. A
    `composite` operator's lowered nodes, all of which files may hold, stand in its place from the reading on, so that
    gradients are theirs. `no_gradient` is the reason of one that has none.

    Each trait is an object that says one thing about the operator, and None where there is nothing to say: its forms in
    files, the execution of its kernel on tiles, what fusion may do with it, its part in training, its numerics.
    """

    name: ClassVar[str]
    kernel: ClassVar[Kernel | None] = None
    inplace: ClassVar[dict[int, int]] = {}
    view: ClassVar[bool] = False
    composite: ClassVar[bool] = False
    no_gradient: ClassVar[str] = ""

    file: ClassVar[FileSpec | None] = None
    execution: ClassVar[Execution | None] = None
    fusion: ClassVar[Fusion | None] = None
    training: ClassVar[Training | None] = None
    numerics: ClassVar[Numerics | None] = None

    @abstractmethod
    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Types of all outputs; raises ShapeMismatch or UnsupportedOperator with the node's name."""

    @abstractmethod
    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The meaning in numpy, in the dtype of the inputs."""

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """Append the backward nodes; `douts` holds the gradient of each output, empty where none arrives."""
        raise NotDifferentiable(f"node {node.name!r} ({self.name}) has no gradient: {self.no_gradient}")

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

    def cost_form(self, node: Node, access: Access) -> tuple[Node, Access]:
        """The node and the access by which its work is counted. Default: its own."""
        return node, access

    @classmethod
    def role(cls, kind: type[R]) -> R | None:
        """Return the training trait if it is of that class, such as Loss; else None."""
        return cls.training if isinstance(cls.training, kind) else None

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


TRAITS: Mapping[str, type[Any]] = {
    **{"file": FileSpec, "execution": Execution, "fusion": Fusion, "training": Training, "numerics": Numerics},
}
"""The class of each trait, by the attribute of the operator that holds it."""
_ROLES = (Loss, Optimizer, Accumulator, Counter)
_PLACES = {
    **{field.name: trait for trait, kind in TRAITS.items() for field in fields(kind)},
    **{role.__name__.lower(): "training" for role in _ROLES},
}
"""The trait of each part, by its name."""
_REGISTRY: dict[str, Operator] = {}
C = TypeVar("C", bound=type[Operator])


def register(cls: C) -> C:
    """Add an operator to the registry. A missing or misplaced part and a name in use are a PackageProblem; for an
    operator of the deployer itself it is an InternalError.
    """
    _check_traits(cls)
    missing = []
    if cls.kernel is not None:
        missing += [
            member for member in ("access", "args", "work") if getattr(cls, member) is getattr(Operator, member)
        ]
    elif not cls.view and cls.lower is Operator.lower:
        missing.append("kernel, view or lower")
    if cls.gradient is Operator.gradient and not (cls.no_gradient or cls.composite):
        missing.append("gradient or no_gradient")
    file = cls.file or INTERNAL
    if onnx.defs.has(cls.name) and not file.versions:
        missing.append("a file with versions")
    missing += sorted(cls.__abstractmethods__)
    if missing:
        raise _misfit(cls, f"operator {cls.__name__} lacks {', '.join(missing)}", ())
    for what, other in _conflicts(cls):
        both = ("first", type(other)), ("second", cls)
        facts = [(which, f"{kind.__module__}.{kind.__qualname__}") for which, kind in both]
        raise _misfit(cls, f"{what} is registered twice", facts)
    operator = cls()
    _REGISTRY.update(dict.fromkeys((cls.name, *file.aliases), operator))
    return cls


def _check_traits(cls: type[Operator]) -> None:
    """Raise the error for a part of a trait that is the class's own, and for an object of another class."""
    misplaced = [f"`{name}` to `{trait}`" for name, trait in _PLACES.items() if hasattr(cls, name)]
    if misplaced:
        raise _misfit(cls, f"parts of operator {cls.__name__} belong to a trait: {', '.join(misplaced)}", ())
    for name, kind in TRAITS.items():
        if not isinstance(getattr(cls, name), kind | None):
            raise _misfit(cls, f"`{name}` of operator {cls.__name__} is no {kind.__name__}", ())


def _conflicts(cls: type[Operator]) -> Iterator[tuple[str, Operator]]:
    """Names and roles that the operator claims, each with the operator that has it already."""
    for name in (cls.name, *(cls.file or INTERNAL).aliases):
        if name in _REGISTRY:
            yield f"operator {name}", _REGISTRY[name]
    for other in _REGISTRY.values():
        if what := _role_conflict(cls.training, other.training):
            yield what, other
        if cls.kernel and other.kernel and cls.kernel.symbol == other.kernel.symbol and cls.kernel != other.kernel:
            yield f"kernel {cls.kernel.symbol}, with other arguments,", other


def _role_conflict(first: Training | None, second: Training | None) -> str:
    """The role that only one operator may have and both claim; empty if there is none."""
    match first, second:
        case Loss(choice=choice), Loss(choice=other) if choice == other:
            return f"loss {choice!r}"
        case Optimizer(), Optimizer():
            return first.clash(second)
        case Accumulator(usual=True), Accumulator(usual=True):
            return "the accumulator that is written"
        case Counter(), Counter():
            return "the counter of updates"
    return ""


def _misfit(cls: type[Operator], cause: str, facts: Sequence[tuple[str, str]]) -> DeployerError:
    """The error for a faulty operator: InternalError for the deployer's own, PackageProblem for a package's."""
    if cls.__module__.startswith("deployer."):
        return InternalError(cause, facts)
    return PackageProblem(cause, [*facts, ("module", cls.__module__)], "correct it, or remove the package")


class Operators(dict[str, Operator]):
    """Operators by op_type; forms that are derived from them, by names of their own, are not listed."""

    def __missing__(self, name: str) -> Operator:
        """A derived form, which is made once."""
        if name not in self._made:
            found = (form for make in _DERIVED if (form := make(name, self)) is not None)
            self._made[name] = next(found, None)
        operator = self._made[name]
        if operator is None:
            raise KeyError(name)
        return operator

    def __init__(self, operators: Mapping[str, Operator]) -> None:
        super().__init__(operators)
        self._made: dict[str, Operator | None] = {}

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def get(self, name: str, default: Any = None) -> Any:
        """The operator or derived form of that name, or the default."""
        try:
            return self[name]
        except KeyError:
            return default


Derive = Callable[[str, Mapping[str, Operator]], Operator | None]
_DERIVED: list[Derive] = []


def derived(make: Derive) -> Derive:
    """Add a rule that makes a derived form of an operator from its name, or None for other names."""
    _DERIVED.append(make)
    return make


@cache
def registry() -> Operators:
    """All operators by op_type: those of the packages below `deployer.operators`, and those of other distributions."""
    walk(importlib.import_module("deployer.operators"))
    kernel_folders()
    return Operators(dict(sorted(_REGISTRY.items())))


def losses() -> dict[str, Operator]:
    """Losses by their names on the command line."""
    return dict(sorted((loss.choice, op) for op in registry().values() if (loss := op.role(Loss))))


def loss_role(choice: str) -> Loss:
    """The declaration of a loss, by its name on the command line."""
    return next(loss for op in losses().values() if (loss := op.role(Loss)) and loss.choice == choice)


def optimizers() -> dict[str, Operator]:
    """Optimizers by their names on the command line, the usual one first; of one name that with the fewest settings."""
    found = [(not o.usual, o.choice, -len(o.settings), op) for op in registry().values() if (o := op.role(Optimizer))]
    return {choice: op for _, choice, _, op in sorted(found, key=lambda entry: entry[:3])}


def usual_accumulator() -> Operator:
    """The accumulator that stands in the training graphs that this compiler makes."""
    return next(op for op in registry().values() if (found := op.role(Accumulator)) and found.usual)


def update_counter() -> Operator:
    """The operator that counts updates."""
    return next(op for op in registry().values() if op.role(Counter))


def sequence_optimizers() -> dict[str, Operator]:
    """Optimizers by the name of their form over sequences."""
    declared = ((found.sequences, op) for op in registry().values() if (found := op.role(Optimizer)))
    return {sequences.name: op for sequences, op in declared if sequences}


def execution_of(operator: Operator) -> Execution:
    """The execution of the operator's kernel on tiles."""
    return operator.execution or NO_EXECUTION


def fused_update(operator: Operator) -> str:
    """Name of the optimizer's operator whose update the kernel applies to its gradient; empty if it applies none."""
    return operator.fusion.fused_update if operator.fusion else ""


def file_of(operator: Operator) -> FileSpec:
    """The forms of the operator in files; those of INTERNAL where no file has it."""
    return operator.file or INTERNAL


def accumulator_of(node: Node) -> Accumulator | None:
    """The declaration of the node's operator as an accumulator, or None."""
    operator = registry().get(node.op)
    return operator.role(Accumulator) if operator else None


def operator_of(node: Node) -> Operator:
    """The operator of a node; UnsupportedOperator where there is none."""
    operators = registry()
    if node.op not in operators:
        raise unsupported(node, "there is no such operator", f"one of {', '.join(operators)}")
    return operators[node.op]


def training_of(node: Node) -> Training:
    """The part of a node's operator in training."""
    return operator_of(node).training or NO_TRAINING


def numerics_of(node: Node) -> Numerics:
    """The numerical properties of a node's operator."""
    return operator_of(node).numerics or NO_NUMERICS


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
