"""Losses that are means over elements: squared and absolute errors, Huber, cross entropies and KL divergence."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Broadcast, Dim, Operand
from deployer.core.errors import NotDifferentiable
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel import ArgValue, Const, CType, Extent, First, Kernel, Last, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import (
    Array,
    GradientBuilder,
    Operator,
    execution_of,
    mismatch,
    register,
    registry,
    unsupported,
)
from deployer.core.signatures import Signature
from deployer.core.traits.execution import Execution, Sums
from deployer.core.traits.file import FileSpec
from deployer.core.traits.fusion import Fusion
from deployer.core.traits.numerics import DecisionBoundaries, Numerics
from deployer.core.traits.training import Hyperparameter, Loss, Training
from deployer.operators.base.elementwise import Flat
from deployer.operators.base.one_sample import OWN_MEANS
from deployer.operators.base.operands import arrays, floats, normal, operands
from deployer.operators.base.sums import CARRY, CARRY_SCALARS, carry_args, carry_operands
from deployer.operators.elementwise.arithmetic import Mul

UNIT = (0.0, 1.0)
"""Where probabilities lie."""
SLOPES = "dpred"
"""The kernel pointer of the gradient."""


def loss_kernel(symbol: str, *numbers: str) -> Kernel:
    """The kernel of a loss on `mean_loss_f32.h`, whose term and slope take further numbers."""
    scalars: list[tuple[str, CType]] = [("n", "u32"), ("first", "u32"), ("last", "u32"), *CARRY_SCALARS]
    scalars += [(name, "f32") for name in ("count", "share", *numbers)]
    inputs, results = ("pred", "target"), ("y", SLOPES)
    pointers = (*((name, "float32", False) for name in inputs), *((name, "float32", True) for name in results), CARRY)
    return Kernel(symbol, pointers, tuple(scalars))


def grad_kernel(symbol: str, *numbers: str) -> Kernel:
    """The kernel of its gradient."""
    scalars: list[tuple[str, CType]] = [("n", "u32"), *((name, "f32") for name in ("scale", *numbers))]
    pointers = (("pred", "float32", False), ("target", "float32", False), ("dpred", "float32", True))
    return Kernel(symbol, pointers, tuple(scalars))


def check_settings(node: Node, settings: Sequence[Hyperparameter]) -> None:
    """Raise UnsupportedOperator for an attribute that is out of its range."""
    for setting in settings:
        if not setting.fits(setting.of(node)):
            name = setting.place
            raise unsupported(node, f"{name} is {setting.of(node):g}", f"{name} in {setting.range}")


def _joint(
    name: str, node: Node, near: Sequence[Node], types: Mapping[str, TensorType], model: KernelModel
) -> tuple[Node, Sequence[Node]] | None:
    """The loss of the same operands, by the same attributes, with the gradient as its second output."""
    operator = registry()[name]
    assert isinstance(operator, MeanLoss)
    for loss in near:
        same = loss.op == name and loss.inputs == node.inputs and not _slopes(loss)
        if same and operator.slope_attrs(loss) == operator.slope_attrs(node):
            means = {OWN_MEANS: node.attrs[OWN_MEANS]} if OWN_MEANS in node.attrs else {}
            outputs = (loss.outputs[0], node.outputs[0], *loss.outputs[2:])
            return replace(loss, outputs=outputs, attrs={**loss.attrs, **means}), [loss]
    return None


class MeanLoss(Flat):
    """pred and target have one shape; the loss is a scalar, a sum over all elements divided by `divisor`.

    The gradient is `grad`, an operator with the attributes of the loss; it is that of the target with the opposite sign
    if the loss depends on their difference alone. A node may have that of pred as a second output.
    """

    execution = Execution(sums=Sums(("n",), results=2), optional_outputs={SLOPES: 1})
    grad: ClassVar[str]
    differs: ClassVar[bool] = False
    """Whether the loss depends on the difference of both inputs alone."""
    settings: ClassVar[tuple[Hyperparameter, ...]] = ()
    given: ClassVar[Mapping[str, AttrValue]] = {}
    """Attributes of samples that differ from the defaults."""
    cost: ClassVar[int] = 1
    """Operations per element."""
    transcendentals: ClassVar[int] = 0
    """Calls of expf or logf per element besides."""

    def __init_subclass__(cls) -> None:
        """A node of the loss can stand for one of its gradient too."""
        super().__init_subclass__()
        cls.fusion = Fusion(multi_output_of=cls.grad, joint=partial(_joint, cls.name))

    @abstractmethod
    def terms(self, node: Node, pred: Array, target: Array) -> Array:
        """The term of each element."""

    def divisor(self, node: Node, size: int) -> int:
        """Divisor of a sum over `size` elements; default: `size`."""
        return size

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A scalar, and the type of pred."""
        (pred,) = super().infer(node, inputs)
        check_settings(node, self.settings)
        return (TensorType("float32", ()), pred)[: max(len(node.outputs), 1)]

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The sum of all terms, divided by the count, and the gradient where the node has it."""
        pred, target = arrays(inputs, 2)
        total = self.terms(node, pred, target).sum(dtype=pred.dtype)
        loss = np.asarray(total / pred.dtype.type(self.divisor(node, pred.size)), dtype=pred.dtype)
        return (loss, *(self._gradient.reference(node, inputs) if _slopes(node) else ()))

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """The slope of each term divided by the count, times dloss where one arrives."""
        for index in (0, 1):
            if not b.needs_grad(index):
                continue
            if index and not self.differs:
                raise NotDifferentiable(f"node {node.name!r} ({self.name}) has no gradient for its target")
            out = b.temp("slope") if douts[0] else b.grad(index)
            b.emit(self.grad, (node.inputs[index], node.inputs[1 - index]), (out,), **self.slope_attrs(node))
            if douts[0]:
                b.emit(Mul.name, (out, douts[0]), (b.grad(index),))

    def slope_attrs(self, node: Node) -> dict[str, AttrValue]:
        """Attributes of the gradient's node."""
        return {setting.place: setting.of(node) for setting in self.settings}

    def numbers(self, node: Node) -> dict[str, float]:
        """The further numbers of the kernel's term."""
        return {setting.place: setting.of(node) for setting in self.settings}

    @property
    def _gradient(self) -> "MeanLossGrad":
        operator = registry()[self.grad]
        assert isinstance(operator, MeanLossGrad)
        return operator

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One flat reduction dim."""
        size = types[node.inputs[0]].size
        pred, target = (Operand(a, node.inputs[i], "in", (size,), (At("n"),)) for i, a in enumerate(("pred", "target")))
        y = Operand("y", node.outputs[0], "out", (1,), (Broadcast(),))
        derivatives = (Operand(SLOPES, _slopes(node), "out", (size,), (At("n"),)),) if _slopes(node) else ()
        carried = carry_operands(node, self.kernel, execution_of(self).sums, y)
        return Access((Dim("n", size, "reduction"),), (pred, target, y, *derivatives, *carried))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length, whether it is first or last in the sum, the divisor, the gradient's factor, and further
        numbers.
        """
        numbers = {**self._gradient.numbers(node), **self.numbers(node)}
        return {
            "n": Extent("n"),
            "first": First(),
            "last": Last(),
            **carry_args(execution_of(self).sums, access),
            "count": Const(float(self.divisor(node, access.dim("n").size))),
            "share": Const(self._gradient.share(node, access.dim("n").size)),
            **{name: Const(number) for name, number in numbers.items()},
        }

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """The operations and an addition per element, all on one core; slopes, a cost class of their own, on others."""
        return Work(
            macs=0, elements=tile["n"] * (1 + self.operations(model)), parallel=1, cost_class=self.cost_class(access)
        )

    @classmethod
    def operations(cls, model: KernelModel) -> int:
        """Return the operations per element by kernels of this model."""
        return cls.cost + cls.transcendentals * model.transcendental_elements

    def cost_class(self, access: Access) -> str:
        """The cost class of the kernel's work."""
        return SLOPES if any(o.arg == SLOPES for o in access.operands) else ""

    def drawn(self, r: np.random.Generator, *shape: int) -> tuple[Array, Array]:
        """A prediction and a target."""
        return normal(r, *shape), normal(r, *shape)


class MeanLossGrad(Flat):
    """The gradient of such a loss with respect to pred, for a loss gradient of one."""

    no_gradient = "it belongs to a backward pass"
    training = Training(sample_mean=OWN_MEANS)
    of: ClassVar[type[MeanLoss]]
    """The loss, whose settings, divisor and samples this has."""

    @abstractmethod
    def derivatives(self, node: Node, pred: Array, target: Array) -> Array:
        """The slope of each term."""

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of pred."""
        check_settings(node, self.of.settings)
        return super().infer(node, inputs)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The slopes, divided by the count."""
        pred, target = arrays(inputs, 2)
        count = pred.dtype.type(self.of().divisor(node, pred.size) / node.attr_int(OWN_MEANS, 1))
        return (np.asarray(self.derivatives(node, pred, target) / count, dtype=pred.dtype),)

    def numbers(self, node: Node) -> dict[str, float]:
        """The kernel's further numbers."""
        return {}

    def factor(self, node: Node) -> float:
        """Factor of the kernel's derivatives besides the count; default: 1."""
        return 1.0

    def share(self, node: Node, size: int) -> float:
        """Factor of derivatives over `size` elements; the node is the gradient's or the loss's."""
        return self.factor(node) * node.attr_int(OWN_MEANS, 1) / self.of().divisor(node, size)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length, a factor that has the count of the whole tensor, and further numbers."""
        scale = self.share(node, access.dim("n").size)
        numbers = {name: Const(number) for name, number in self.numbers(node).items()}
        return {"n": Extent("n"), "scale": Const(scale), **numbers}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """As many operations per element as the loss has."""
        return Work(macs=0, elements=tile["n"] * self.of.operations(model), parallel=tile["n"])


def _slopes(node: Node) -> str:
    """The name of the gradient among the outputs of a loss, empty without one."""
    return node.outputs[1] if len(node.outputs) > 1 else ""


FLOOR = -100.0


@register
class BCELoss(MeanLoss):
    """-mean(target log(pred) + (1 - target) log(1 - pred)), for predictions that are probabilities.

    Logarithms count at least FLOOR, as in PyTorch, so that the loss of a probability that is wholly wrong is finite.

    Binary cross entropy.
    """

    name = "BCELoss"
    file = FileSpec(domain="", custom=Signature((2, 2), (1, 1)))
    training = Loss(
        "bce",
        "target",
        lambda output: output,
        "probabilities, whose target is from 0 to 1",
        function="binary_cross_entropy",
        decision=0.5,
    )
    kernel = loss_kernel("bce_loss_f32", "floor", "least")
    numerics = Numerics(bounded={0: UNIT, 1: UNIT})
    grad = "BCELossGrad"
    cost = 0
    transcendentals = 2

    def terms(self, node: Node, pred: Array, target: Array) -> Array:
        """Both logarithms, by the shares of the target."""
        with np.errstate(divide="ignore", invalid="ignore"):
            yes, no = (np.maximum(x, pred.dtype.type(FLOOR)) for x in (np.log(pred), np.log1p(-pred)))
        return np.asarray(-(target * yes + (1 - target) * no))

    def numbers(self, node: Node) -> dict[str, float]:
        """The least logarithm."""
        return {"floor": FLOOR}

    def drawn(self, r: np.random.Generator, *shape: int) -> tuple[Array, Array]:
        """Probabilities, and targets from 0 to 1, both included."""
        pred, target = r.uniform(0.05, 0.95, shape), r.uniform(-0.5, 1.5, shape).clip(0, 1)
        return pred.astype(np.float32), target.astype(np.float32)


LEAST = 1e-12


@register
class BCELossGrad(MeanLossGrad):
    """dpred = (pred - target) / (pred (1 - pred)) / numel; the product is at least LEAST, as in PyTorch.

    Finite for every probability.
    """

    name = "BCELossGrad"
    file = FileSpec(domain="", custom=Signature((2, 2), (1, 1)))
    kernel = grad_kernel("bce_loss_grad_f32", "least")
    of = BCELoss

    def derivatives(self, node: Node, pred: Array, target: Array) -> Array:
        """(pred - target) / (pred (1 - pred))."""
        return np.asarray((pred - target) / np.maximum(pred * (1 - pred), pred.dtype.type(LEAST)))

    def numbers(self, node: Node) -> dict[str, float]:
        """The least product."""
        return {"least": LEAST}


@register
class BCEWithLogitsLoss(MeanLoss):
    """BCELoss of the logistic function of pred, as max(x, 0) - x target + log(1 + exp(-|x|)).

    Binary cross entropy of scores, which no score makes infinite.
    """

    name = "BCEWithLogitsLoss"
    file = FileSpec(domain="", custom=Signature((2, 2), (1, 1)))
    training = Loss(
        "bce_with_logits",
        "target",
        lambda output: output,
        "scores, whose target is from 0 to 1",
        function="binary_cross_entropy_with_logits",
        decision=0.0,
    )
    kernel = loss_kernel("bce_logits_loss_f32")
    numerics = Numerics(bounded={1: UNIT})
    grad = "BCEWithLogitsLossGrad"
    cost = 0
    transcendentals = 2

    def terms(self, node: Node, pred: Array, target: Array) -> Array:
        """max(x, 0) - x target + log(1 + exp(-|x|))."""
        return np.asarray(np.maximum(pred, 0) - pred * target + np.log1p(np.exp(-np.abs(pred))))

    def drawn(self, r: np.random.Generator, *shape: int) -> tuple[Array, Array]:
        """Small and large scores, and targets from 0 to 1, both included."""
        pred, target = normal(r, *shape) * np.float32(2), r.uniform(-0.5, 1.5, shape).clip(0, 1)
        return pred, target.astype(np.float32)


@register
class BCEWithLogitsLossGrad(MeanLossGrad):
    """dpred = (1 / (1 + exp(-pred)) - target) / numel. The logistic function less the target."""

    name = "BCEWithLogitsLossGrad"
    file = FileSpec(domain="", custom=Signature((2, 2), (1, 1)))
    kernel = grad_kernel("bce_logits_loss_grad_f32")
    of = BCEWithLogitsLoss

    def derivatives(self, node: Node, pred: Array, target: Array) -> Array:
        """By a power that is at most 1; 1 - target is exact where the target is 1."""
        power = np.exp(-np.abs(pred))
        less = power / (1 + power)
        return np.asarray(np.where(pred >= 0, (1 - target) - less, less - target))


DELTA = Hyperparameter("delta", "absolute error up to which the loss is quadratic", 1.0, ends="()")
SCALE = Hyperparameter("scale", "factor of the loss", 1.0, ends="()")
HUBER_SIGNATURE = Signature((2, 2), (1, 1), {s.place: s.kind for s in (DELTA, SCALE)})


@register
class HuberLoss(MeanLoss):
    """mean(scale h(pred - target)), h(d) = d^2 / 2 up to delta, and delta (|d| - delta / 2) beyond.

    Huber, Robust estimation of a location parameter, 1964; `scale` is 1 but for losses that are a multiple of it.

    A square near the target, a line far from it; attributes `delta` and `scale`.
    """

    name = "HuberLoss"
    file = FileSpec(domain="", custom=HUBER_SIGNATURE)
    training = Loss("huber", "target", lambda output: output, "any float output", settings=(DELTA,))
    kernel = loss_kernel("huber_loss_f32", DELTA.place, SCALE.place)
    grad = "HuberLossGrad"
    differs = True
    settings = (DELTA, SCALE)
    given: ClassVar[dict[str, AttrValue]] = {"delta": 0.5, "scale": 2.0}
    cost = 2

    def terms(self, node: Node, pred: Array, target: Array) -> Array:
        """Scale h(pred - target)."""
        delta, scale = (pred.dtype.type(s.of(node)) for s in (DELTA, SCALE))
        d, half = np.abs(pred - target), pred.dtype.type(1 / 2)
        return np.asarray(scale * np.where(d <= delta, half * d * d, delta * (d - half * delta)))


@register
class HuberLossGrad(MeanLossGrad):
    """dpred = scale (pred - target) / numel, where the difference counts at most delta.

    Attributes as the loss has them.
    """

    name = "HuberLossGrad"
    file = FileSpec(domain="", custom=HUBER_SIGNATURE)
    kernel = grad_kernel("huber_loss_grad_f32", DELTA.place)
    of = HuberLoss

    def derivatives(self, node: Node, pred: Array, target: Array) -> Array:
        """The difference, kept between -delta and delta, times the scale."""
        delta, scale = (pred.dtype.type(s.of(node)) for s in (DELTA, SCALE))
        return np.asarray(scale * np.clip(pred - target, -delta, delta))

    def numbers(self, node: Node) -> dict[str, float]:
        """The distance."""
        return {DELTA.place: DELTA.of(node)}

    def factor(self, node: Node) -> float:
        """The scale."""
        return SCALE.of(node)


BATCH = "batch"
KL_DIV_SIGNATURE = Signature((2, 2), (1, 1), {BATCH: "INT"})
LOGARITHMS = "logarithms of probabilities with a batch axis, whose target is from 0 to 1"


def check_batch(node: Node, absent: int) -> None:
    """UnsupportedOperator for a divisor below 1; `absent` stands for one that the node does not have."""
    batch = node.attr_int(BATCH, absent)
    if batch < 1:
        raise unsupported(node, f"its {BATCH} is {batch}", f"a {BATCH} from 1 on")


@register
class KLDivLoss(MeanLoss):
    """sum(target (log(target) - pred)) / batch, for predictions that are logarithms of probabilities.

    Kullback and Leibler, On information and sufficiency, 1951: the divergence of each sample, averaged over the first
    axis, as PyTorch's kl_div has it under reduction "batchmean". A target of 0 adds nothing.

    Attribute `batch` is the divisor, by default the length of the first axis.
    """

    name = "KLDivLoss"
    file = FileSpec(domain="", custom=KL_DIV_SIGNATURE)
    training = Loss(
        "kl_div",
        "target",
        lambda output: output if output.shape else None,
        LOGARITHMS,
        arguments={"reduction": "batchmean"},
    )
    kernel = loss_kernel("kl_div_loss_f32")
    numerics = Numerics(bounded={1: UNIT})
    grad = "KLDivLossGrad"
    given: ClassVar[dict[str, AttrValue]] = {BATCH: 2}
    cost = 0
    transcendentals = 1

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A scalar."""
        check_batch(node, 1)
        return super().infer(node, inputs)

    def terms(self, node: Node, pred: Array, target: Array) -> Array:
        """Target (log(target) - pred), 0 where the target is."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(target == 0, pred.dtype.type(0), target * (np.log(target) - pred)))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The divergence of each sample in the mean."""
        pred = inputs[0]
        assert pred is not None
        batch = node.attr_int(BATCH, 0) or len(pred)
        return super().reference(Node(node.name, node.op, node.inputs, node.outputs, {BATCH: batch}), inputs)

    def divisor(self, node: Node, size: int) -> int:
        """The length of the first axis."""
        return node.attr_int(BATCH, 0)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The same with the batch as an attribute."""
        if node.attr_int(BATCH, 0):
            return None
        batch = operands(node, inputs, 1)[0].shape[0]
        return [Node(node.name, self.name, node.inputs, node.outputs, {BATCH: batch})]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """That of the node with the batch as an attribute."""
        batch = node.attr_int(BATCH, 0) or b.type(node.inputs[0]).shape[0]
        super().gradient(Node(node.name, node.op, node.inputs, node.outputs, {BATCH: batch}), douts, b)

    def slope_attrs(self, node: Node) -> dict[str, AttrValue]:
        """The batch."""
        return {BATCH: node.attr_int(BATCH, 0)}

    def drawn(self, r: np.random.Generator, *shape: int) -> tuple[Array, Array]:
        """Logarithms of probabilities, and targets from 0 to 1, both included."""
        pred, target = np.log(r.uniform(0.01, 1, shape)), r.uniform(-0.5, 1.5, shape).clip(0, 1)
        return pred.astype(np.float32), target.astype(np.float32)


@register
class KLDivLossGrad(MeanLossGrad):
    """dpred = -target / batch. Attribute `batch` is the divisor."""

    name = "KLDivLossGrad"
    file = FileSpec(domain="", custom=KL_DIV_SIGNATURE)
    kernel = grad_kernel("kl_div_loss_grad_f32")
    of = KLDivLoss

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of pred."""
        check_batch(node, 0)
        return super().infer(node, inputs)

    def derivatives(self, node: Node, pred: Array, target: Array) -> Array:
        """-target."""
        return -target


def _decision_boundaries(node: Node, inputs: Sequence[Array | None]) -> tuple[DecisionBoundaries, ...]:
    """Each element decides by its side of the target which sign its gradient has."""
    pred, target = (x.reshape(-1) for x in arrays(inputs, 2))
    flipped = np.where(pred > target, target, np.nextafter(target, np.inf))
    return (DecisionBoundaries(0, np.arange(pred.size), np.abs(pred - target), flipped),)


@register
class L1Loss(MeanLoss):
    """mean(|pred - target|). The mean of all distances."""

    name = "L1Loss"
    file = FileSpec(domain="", custom=Signature((2, 2), (1, 1)))
    training = Loss("l1", "target", lambda output: output, "any float output")
    kernel = loss_kernel("l1_loss_f32")
    grad = "L1LossGrad"
    differs = True
    numerics = Numerics(decision_boundaries=_decision_boundaries)

    def terms(self, node: Node, pred: Array, target: Array) -> Array:
        """|pred - target|."""
        return np.asarray(np.abs(pred - target))


@register
class L1LossGrad(MeanLossGrad):
    """dpred = sign(pred - target) / numel. 0 where prediction and target are equal, as in PyTorch."""

    name = "L1LossGrad"
    file = FileSpec(domain="", custom=Signature((2, 2), (1, 1)))
    kernel = grad_kernel("l1_loss_grad_f32")
    of = L1Loss

    def derivatives(self, node: Node, pred: Array, target: Array) -> Array:
        """sign(pred - target)."""
        return np.asarray(np.sign(pred - target))


@register
class MSELoss(MeanLoss):
    """mean((pred - target)^2). pred and target have one shape; the loss is a scalar."""

    name = "MSELoss"
    file = FileSpec(domain="", custom=Signature((2, 2), (1, 1)))
    training = Loss("mse", "target", lambda output: output, "any float output", spoken=("mean_squared_error",))
    kernel = loss_kernel("mse_loss_f32")
    grad = "MSELossGrad"
    differs = True

    def terms(self, node: Node, pred: Array, target: Array) -> Array:
        """(pred - target)^2."""
        return np.asarray((pred - target) ** 2)

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """A difference and a multiply-accumulate per element, all on one core."""
        return Work(macs=tile["n"], elements=tile["n"], parallel=1, cost_class=self.cost_class(access))


@register
class MSELossGrad(MeanLossGrad):
    """dpred = 2 (pred - target) / numel. Gradient of MSELoss with respect to pred, for a loss gradient of one."""

    name = "MSELossGrad"
    file = FileSpec(domain="", custom=Signature((2, 2), (1, 1)))
    kernel = grad_kernel("mse_loss_grad_f32")
    of = MSELoss

    def derivatives(self, node: Node, pred: Array, target: Array) -> Array:
        """2 (pred - target)."""
        return np.asarray(2 * (pred - target))

    def factor(self, node: Node) -> float:
        """The 2: a product with 2 / numel, as not every machine divides fast."""
        return 2.0


BETA = Hyperparameter("beta", "absolute error below which the loss is quadratic", 1.0, ends="()")


@register
class SmoothL1Loss(Operator):
    """mean(s(pred - target)), s(d) = d^2 / (2 beta) below beta, and |d| - beta / 2 from there on.

    Girshick, Fast R-CNN, 2015, for beta 1. It is HuberLoss with delta = beta, divided by beta.

    A square near the target, the distance far from it; attribute `beta`.
    """

    name = "SmoothL1Loss"
    file = FileSpec(domain="", custom=Signature((2, 2), (1, 1), {BETA.place: BETA.kind}))
    training = Loss("smooth_l1", "target", lambda output: output, "any float output", settings=(BETA,))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A scalar."""
        pred, target = floats(node, inputs, 2)
        if pred != target:
            raise mismatch(node, "operands differ in type", inputs)
        check_settings(node, (BETA,))
        return (TensorType("float32", ()),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The mean of s(pred - target)."""
        pred, target = arrays(inputs, 2)
        beta, half = pred.dtype.type(BETA.of(node)), pred.dtype.type(1 / 2)
        d = np.abs(pred - target)
        return (np.asarray(np.mean(np.where(d < beta, half * d * d / beta, d - half * beta)), dtype=pred.dtype),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """Huber's."""
        for index in (0, 1):
            if not b.needs_grad(index):
                continue
            out = b.temp("slope") if douts[0] else b.grad(index)
            b.emit(HuberLoss.grad, (node.inputs[index], node.inputs[1 - index]), (out,), **_attrs(node))
            if douts[0]:
                b.emit(Mul.name, (out, douts[0]), (b.grad(index),))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """HuberLoss, scaled."""
        return [Node(node.name, HuberLoss.name, node.inputs, node.outputs, _attrs(node))]


def _attrs(node: Node) -> dict[str, AttrValue]:
    beta = BETA.of(node)
    return {DELTA.place: beta, SCALE.place: 1 / beta}
