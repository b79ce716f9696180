"""Optimizers as nodes: the SGD family, the Adam family, RMSprop and Adagrad."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Broadcast, Dim, Operand
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel import ArgValue, Const, CType, Extent, Kernel, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, mismatch, register, unsupported
from deployer.core.signatures import Signature
from deployer.core.traits.file import FileSpec
from deployer.core.traits.training import Hyperparameter, Optimizer, Sequences, State
from deployer.operators.base.elementwise import Flat
from deployer.operators.base.operands import arrays, operands
from deployer.operators.update.scaled_update import ScaledUpdate

SGD_LEARNING_RATE = 0.01
MOMENTS = {2: State("_first_moment", elsewhere="exp_avg"), 3: State("_second_moment", elsewhere="exp_avg_sq")}
BUFFER = State("_momentum", elsewhere="momentum_buffer")
"""What optimizers keep, with PyTorch's names."""


@register
class SGD(Flat):
    """W' = w - lr * g, in place. Plain gradient descent; attribute `lr`."""

    name = "SGD"
    file = FileSpec(custom=Signature((2, 2), (1, 1), {"lr": "FLOAT"}), domain="")
    training = Optimizer(
        "sgd",
        rate="lr",
        usual=True,
        sequences=Sequences("SGDOptimizerV2", Signature((3, 3), (1, 2)), {1: 0, 2: 1}),
        default_rate=SGD_LEARNING_RATE,
    )
    kernel = Kernel(
        "sgd_f32",
        pointers=(("w", "float32", True), ("g", "float32", False)),
        scalars=(("n", "u32"), ("lr", "f32")),
    )
    inplace: ClassVar[dict[int, int]] = {0: 0}
    no_gradient = "it is an optimizer"

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """w - lr * g."""
        w, g = arrays(inputs, 2)
        return (np.asarray(w - w.dtype.type(node.attr_float("lr", SGD_LEARNING_RATE)) * g),)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length and the learning rate."""
        return {"n": Extent("n"), "lr": Const(node.attr_float("lr", SGD_LEARNING_RATE))}


@register
class ScaledSGD(ScaledUpdate, of=SGD):
    """SGD of a gradient times a number."""


ADAMW_LEARNING_RATE = 0.001
NUMBERS = {"alpha": 0.9, "beta": 0.999, "epsilon": 1e-8, "weight_decay": 0.01}
"""Attributes with what they are where absent, as in ONNX Runtime."""
CHOICES = (
    Hyperparameter("beta1", "decay rate of the first moment estimate", NUMBERS["alpha"], "alpha", most=1.0),
    Hyperparameter("beta2", "decay rate of the second moment estimate", NUMBERS["beta"], "beta", most=1.0),
    Hyperparameter(
        "eps", "term added to the denominator for numerical stability", NUMBERS["epsilon"], "epsilon", ends="()"
    ),
    Hyperparameter("weight-decay", "decoupled weight decay coefficient", NUMBERS["weight_decay"]),
)
ADAMW_SETTINGS = {**dict.fromkeys(NUMBERS, "FLOAT"), "adam_mode": "INT", "correct_bias": "INT"}


@register
class AdamW(Flat):
    """Moments of the gradient, corrected for their start at zero, and decay of the weight, all in place.

    Inputs are weight, gradient, both moments and the number of the update, from 1 on.

    `adam_mode` 0 lets the weight decay first and adds epsilon to the corrected root, as PyTorch does; 1 the reverse, as
    Hugging Face's. Without `correct_bias` the moments are taken as they are, which mode 0 does not know.
    """

    name = "AdamW"
    file = FileSpec(
        custom=Signature((5, 5), (1, 3), {"lr": "FLOAT", **ADAMW_SETTINGS}),
        domain="",
        flags=("adam_mode", "correct_bias"),
    )
    training = Optimizer(
        "adamw",
        rate="lr",
        states=MOMENTS,
        count=4,
        sequences=Sequences(
            "AdamWOptimizer", Signature((6, 6), (1, 4), ADAMW_SETTINGS), {1: 4, 2: 0, 3: 1, 4: 2, 5: 3}
        ),
        settings=CHOICES,
        default_rate=ADAMW_LEARNING_RATE,
        rated=("lr", "before", "after"),
    )
    kernel = Kernel(
        "adamw_f32",
        pointers=(
            ("w", "float32", True),
            ("g", "float32", False),
            ("m", "float32", True),
            ("v", "float32", True),
            ("count", "int32", False),
        ),
        scalars=(
            ("n", "u32"),
            ("corrected", "u32"),
            ("late", "u32"),
            ("lr", "f32"),
            ("alpha", "f32"),
            ("one_less_alpha", "f32"),
            ("beta", "f32"),
            ("one_less_beta", "f32"),
            ("epsilon", "f32"),
            ("before", "f32"),
            ("after", "f32"),
        ),
    )
    inplace: ClassVar[dict[int, int]] = {0: 0, 1: 2, 2: 3}
    no_gradient = "it is an optimizer"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Weight and moments, of the gradient's type; the count is one integer."""
        w, g, m, v, count = operands(node, inputs, 5)
        if not w == g == m == v:
            raise mismatch(node, "weight, gradient and moments differ in type", inputs)
        if count.dtype != "int32" or count.size != 1:
            raise mismatch(node, "the number of the update is not one integer", inputs)
        if not node.attr_int("adam_mode", 0) and not node.attr_int("correct_bias", 1):
            raise unsupported(node, "adam_mode 0 without correct_bias", "adam_mode 1, or correct_bias 1")
        for name in ("alpha", "beta"):
            if not 0 <= _number(node, name) < 1:
                raise unsupported(node, f"{name} is {_number(node, name):g}", f"{name} from 0 to below 1")
        return w, m, v

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The updated weight and both moments."""
        w, g, m, v, count = arrays(inputs, 5)
        numbers = _numbers(node)
        alpha, beta, epsilon, rate = (w.dtype.type(numbers[name]) for name in ("alpha", "beta", "epsilon", "lr"))
        late = node.attr_int("adam_mode", 0)
        m = alpha * m + (1 - alpha) * g
        v = beta * v + (1 - beta) * g * g
        first, second = (1 - w.dtype.type(numbers[n] ** int(count.reshape(()))) for n in ("alpha", "beta"))
        if not node.attr_int("correct_bias", 1):
            first = second = w.dtype.type(1)
        root = np.sqrt(second)
        step = rate * root / first * m / (np.sqrt(v) + epsilon * (1 if late else root))
        before, after = (w.dtype.type(share) for share in _shares(node))
        return np.asarray(after * (before * w - step)), np.asarray(m), np.asarray(v)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One flat parallel dim, and the count beside it."""
        size = types[node.inputs[0]].size
        operands = [
            Operand(arg, name, "inout" if is_output else "in", (size,), (At("n"),))
            for (arg, _, is_output), name in zip(self.kernel.pointers, node.inputs, strict=True)
        ]
        operands[4] = replace(operands[4], view=(1,), axes=(Broadcast(),))
        return Access((Dim("n", size),), tuple(operands))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length, the rates with what they leave, and when the weight decays."""
        attributes, (before, after) = _numbers(node), _shares(node)
        numbers = {
            **{name: attributes[name] for name in ("lr", "alpha", "beta", "epsilon")},
            **{f"one_less_{name}": 1 - attributes[name] for name in ("alpha", "beta")},
            "before": before,
            "after": after,
        }
        return {
            "n": Extent("n"),
            "corrected": Const(node.attr_int("correct_bias", 1)),
            "late": Const(node.attr_int("adam_mode", 0)),
            **{name: Const(number) for name, number in numbers.items()},
        }

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """A root and a quotient beside a dozen operations per element."""
        return Work(macs=0, elements=tile["n"] * model.transcendental_elements, parallel=tile["n"])


@register
class ScaledAdamW(ScaledUpdate, of=AdamW):
    """AdamW of a gradient times a number."""


def _number(node: Node, name: str) -> float:
    return float(np.float32(node.attr_float(name, NUMBERS[name])))


def _numbers(node: Node) -> dict[str, float]:
    """The attributes as the float32 numbers that the kernel gets."""
    rate = {"lr": float(np.float32(node.attr_float("lr", ADAMW_LEARNING_RATE)))}
    return rate | {name: _number(node, name) for name in NUMBERS}


def _shares(node: Node) -> tuple[float, float]:
    """Return the decay factors: of the weight before the step, and of the result after it."""
    numbers = _numbers(node)
    left = 1 - numbers["lr"] * numbers["weight_decay"]
    return (1.0, left) if node.attr_int("adam_mode", 0) else (left, 1.0)


RATE = Hyperparameter("lr", "learning rate", 0.01)
DECAY = Hyperparameter("weight-decay", "weight decay coefficient (penalty on squared weights)", 0.0)
MOMENTUM = Hyperparameter("momentum", "momentum coefficient", 0.0, most=1.0)
EPS = Hyperparameter("eps", "term added to the denominator for numerical stability", 1e-8, ends="()")

COUNT = "count"
"""The pointer of a kernel that reads the number of the update."""
ONE_LESS = "one_less_"
"""Before the name of a share, what it leaves of one."""


def update_kernel(
    symbol: str,
    states: Sequence[str],
    settings: Sequence[Hyperparameter],
    means: Sequence[str] = (),
    count: bool = False,
) -> Kernel:
    """Pointers are weight, gradient, states and the count; scalars the length, the rate, and a number per setting.

    A share that a moving mean keeps, one of `means`, comes with what it leaves, too.
    """
    pointers = [("w", "float32", True), ("g", "float32", False), *((name, "float32", True) for name in states)]
    pointers += [(COUNT, "int32", False)] if count else []
    scalars: list[tuple[str, CType]] = [("n", "u32"), (RATE.place, "f32")]
    scalars += [(s.place, "u32" if s.integer else "f32") for s in settings]
    return Kernel(symbol, tuple(pointers), (*scalars, *((ONE_LESS + name, "f32") for name in means)))


def update_signature(optimizer: Optimizer) -> Signature:
    """The form of a node: every setting is an attribute, and all but gradient and count are updated."""
    states, counted = len(optimizer.states), int(optimizer.count is not None)
    inputs, outputs = 2 + states + counted, 1 + states
    kinds = {RATE.place: RATE.kind, **{s.place: s.kind for s in optimizer.settings}}
    return Signature((inputs, inputs), (outputs, outputs), kinds)


class WeightUpdate(Flat):
    """Weight, gradient, states and, where it is declared, the number of the update; a subclass has the formula."""

    training: ClassVar[Optimizer]
    no_gradient = "it is an optimizer"
    cost: ClassVar[int] = 1
    """Operations per element."""
    transcendentals: ClassVar[int] = 0
    """Roots, quotients and the like per element besides, each with the work of expf."""
    given: ClassVar[Mapping[str, AttrValue]] = {}
    """Attributes of a sample, all of which differ from the defaults."""

    @abstractmethod
    def step(self, node: Node, w: Array, g: Array, states: Sequence[Array], count: int) -> tuple[Array, ...]:
        """The updated weight and states."""

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Weight and states, of the gradient's type; the count is one integer."""
        declared = self.training
        floats = 2 + len(declared.states)
        present = operands(node, inputs, floats + (declared.count is not None))
        if any(t != present[0] for t in present[:floats]):
            raise mismatch(node, "weight, gradient and states differ in type", inputs)
        for kind in present[floats:]:
            if kind.dtype != "int32" or kind.size != 1:
                raise mismatch(node, "the number of the update is not one integer", inputs)
        for setting in declared.settings:
            if not setting.fits(setting.of(node)):
                name = setting.place
                raise unsupported(node, f"{name} is {setting.of(node):g}", f"{name} in {setting.range}")
        return (present[0], *present[2:floats])

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The updated weight and states."""
        w, g, *rest = arrays(inputs, len(inputs))
        states = rest[: len(self.training.states)]
        count = int(rest[-1].reshape(())) if self.training.count is not None else 0
        return tuple(np.asarray(x, w.dtype) for x in self.step(node, w, g, states, count))

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One flat parallel dim, and the count beside it."""
        size = types[node.inputs[0]].size
        listed = [
            Operand(arg, name, "inout" if is_output else "in", (size,), (At("n"),))
            for (arg, _, is_output), name in zip(self.kernel.pointers, node.inputs, strict=True)
        ]
        listed = [replace(o, view=(1,), axes=(Broadcast(),)) if o.arg == COUNT else o for o in listed]
        return Access((Dim("n", size),), tuple(listed))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length, the rate, the settings, and what shares leave."""
        numbers = {s.place: s.of(node) for s in (RATE, *self.training.settings)}
        numbers |= {ONE_LESS + name: 1 - share for name, share in numbers.items()}
        return {"n": Extent("n"), **{name: Const(numbers[name]) for name, _ in self.kernel.scalars[1:]}}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """`cost` operations and `transcendentals` per element."""
        each = self.cost + self.transcendentals * model.transcendental_elements
        return Work(macs=0, elements=tile["n"] * each, parallel=tile["n"])


DECAY_SETTINGS = (DECAY,)


@register
class SGDDecay(WeightUpdate):
    """W' = w - lr (g + weight_decay w), in place.

    Gradient descent with decay of the weights, which needs no state.
    """

    name = "SGDDecay"
    training = Optimizer("sgd", rate=RATE.place, settings=DECAY_SETTINGS, usual=True)
    file = FileSpec(custom=update_signature(training))
    kernel = update_kernel("sgd_decay_f32", (), DECAY_SETTINGS)
    inplace: ClassVar[dict[int, int]] = {0: 0}
    cost = 2
    given: ClassVar = {"lr": 0.125, "weight_decay": 0.5}

    def step(self, node: Node, w: Array, g: Array, states: Sequence[Array], count: int) -> tuple[Array, ...]:
        """w - lr (g + weight_decay w)."""
        rate, decay = (w.dtype.type(s.of(node)) for s in (RATE, DECAY))
        return (w - rate * (g + decay * w),)


@register
class ScaledSGDDecay(ScaledUpdate, of=SGDDecay):
    """SGDDecay of a gradient times a number."""


NESTEROV = Hyperparameter("nesterov", "use Nesterov momentum", 0, switch=True)
MOMENTUM_SETTINGS = (DECAY, MOMENTUM, NESTEROV)


@register
class SGDMomentum(WeightUpdate):
    """V' = momentum v + g and w' = w - lr v', with decay of the weight, all in place.

    The formula is that of PyTorch's SGD with dampening 0; Nesterov's rule is that of Sutskever et al., On the
    importance of initialization and momentum in deep learning, 2013, in the form that needs the gradient at w alone.

    Gradient descent with momentum, which is kept per weight.
    """

    name = "SGDMomentum"
    training = Optimizer("sgd", rate=RATE.place, states={2: BUFFER}, settings=MOMENTUM_SETTINGS, usual=True)
    kernel = update_kernel("sgd_momentum_f32", ("v",), MOMENTUM_SETTINGS)
    inplace: ClassVar[dict[int, int]] = {0: 0, 1: 2}
    file = FileSpec(custom=update_signature(training), flags=(NESTEROV.place,))
    cost = 2
    given: ClassVar = {"lr": 0.125, "weight_decay": 0.5, "momentum": 0.75, "nesterov": 1}

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Weight and momentum, of the gradient's type; Nesterov's rule needs a momentum."""
        if NESTEROV.of(node) and not MOMENTUM.of(node):
            raise unsupported(node, "nesterov with momentum 0", "a momentum above 0, or no nesterov")
        return super().infer(node, inputs)

    def step(self, node: Node, w: Array, g: Array, states: Sequence[Array], count: int) -> tuple[Array, ...]:
        """The weight by v, or by g + momentum v, and v."""
        rate, decay, share = (w.dtype.type(s.of(node)) for s in (RATE, DECAY, MOMENTUM))
        g = g + decay * w
        v = share * states[0] + g
        return w - rate * (g + share * v if NESTEROV.of(node) else v), v


@register
class ScaledSGDMomentum(ScaledUpdate, of=SGDMomentum):
    """SGDMomentum of a gradient times a number."""


FIRST = Hyperparameter("beta1", "decay rate of the first moment estimate", 0.9, most=1.0)
SECOND = Hyperparameter("beta2", "decay rate of the second moment estimate", 0.999, most=1.0)
ADAM_SETTINGS = (FIRST, SECOND, EPS, DECAY)


@register
class Adam(WeightUpdate):
    """Moments of the gradient, corrected for their start at zero, all in place.

    Kingma and Ba, Adam: a method for stochastic optimization, 2015, algorithm 1; epsilon is added to the corrected
    root, and the decay to the gradient, as PyTorch does.

    Inputs are weight, gradient, both moments and the number of the update, from 1 on.
    """

    name = "Adam"
    training = Optimizer(
        "adam",
        rate=RATE.place,
        states=MOMENTS,
        count=4,
        settings=ADAM_SETTINGS,
    )
    file = FileSpec(custom=update_signature(training))
    kernel = update_kernel("adam_f32", ("m", "v"), ADAM_SETTINGS, (FIRST.place, SECOND.place), count=True)
    inplace: ClassVar[dict[int, int]] = {0: 0, 1: 2, 2: 3}
    cost = 0
    transcendentals = 1
    given: ClassVar = {"lr": 0.125, "beta1": 0.5, "beta2": 0.75, "eps": 0.25, "weight_decay": 0.5}

    def step(self, node: Node, w: Array, g: Array, states: Sequence[Array], count: int) -> tuple[Array, ...]:
        """The updated weight and both moments."""
        rate, decay, alpha, beta, eps = (w.dtype.type(s.of(node)) for s in (RATE, DECAY, FIRST, SECOND, EPS))
        g = g + decay * w
        m = alpha * states[0] + (1 - alpha) * g
        v = beta * states[1] + (1 - beta) * g * g
        first, second = (w.dtype.type(1 - s.of(node) ** count) for s in (FIRST, SECOND))
        return w - rate * (m / first) / (np.sqrt(v / second) + eps), m, v


@register
class ScaledAdam(ScaledUpdate, of=Adam):
    """Adam of a gradient times a number."""


LATE = replace(EPS, default=1e-10)
ADAGRAD_SETTINGS = (LATE, DECAY)


@register
class Adagrad(WeightUpdate):
    """V' = v + g^2 and w' = w - lr g / (sqrt(v') + eps), in place.

    Duchi, Hazan and Singer, Adaptive subgradient methods for online learning and stochastic optimization, 2011, with a
    diagonal matrix; epsilon is added to the root as PyTorch does.

    The sum of the gradient's squares is kept per weight.
    """

    name = "Adagrad"
    training = Optimizer(
        "adagrad", rate=RATE.place, states={2: State("_square_sum", elsewhere="sum")}, settings=ADAGRAD_SETTINGS
    )
    file = FileSpec(custom=update_signature(training))
    kernel = update_kernel("adagrad_f32", ("v",), ADAGRAD_SETTINGS)
    inplace: ClassVar[dict[int, int]] = {0: 0, 1: 2}
    cost = 0
    transcendentals = 1
    given: ClassVar = {"lr": 0.125, "eps": 0.25, "weight_decay": 0.5}

    def step(self, node: Node, w: Array, g: Array, states: Sequence[Array], count: int) -> tuple[Array, ...]:
        """The updated weight and the sum of squares."""
        rate, decay, eps = (w.dtype.type(s.of(node)) for s in (RATE, DECAY, LATE))
        g = g + decay * w
        v = states[0] + g * g
        return w - rate * g / (np.sqrt(v) + eps), v


@register
class ScaledAdagrad(ScaledUpdate, of=Adagrad):
    """Adagrad of a gradient times a number."""


ALPHA = Hyperparameter("alpha", "decay rate of the mean squared gradient", 0.99, most=1.0)
RMSPROP_SETTINGS = (ALPHA, EPS, DECAY)
SQUARE = State("_square_mean", elsewhere="square_avg")


def divided(node: Node, w: Array, g: Array, v: Array) -> tuple[Array, Array]:
    """The gradient by the root of the mean of its square, and that mean."""
    decay, alpha, eps = (w.dtype.type(s.of(node)) for s in (DECAY, ALPHA, EPS))
    g = g + decay * w
    v = np.asarray(alpha * v + (1 - alpha) * g * g)
    return np.asarray(g / (np.sqrt(v) + eps)), v


@register
class RMSprop(WeightUpdate):
    """V' = alpha v + (1 - alpha) g^2 and w' = w - lr g / (sqrt(v') + eps), in place.

    Tieleman and Hinton, Neural networks for machine learning, lecture 6.5, 2012; epsilon is added to the root as
    PyTorch does.

    The mean of the gradient's square is kept per weight.
    """

    name = "RMSprop"
    training = Optimizer("rmsprop", rate=RATE.place, states={2: SQUARE}, settings=RMSPROP_SETTINGS)
    file = FileSpec(custom=update_signature(training))
    kernel = update_kernel("rmsprop_f32", ("v",), RMSPROP_SETTINGS, (ALPHA.place,))
    inplace: ClassVar[dict[int, int]] = {0: 0, 1: 2}
    cost = 0
    transcendentals = 1
    given: ClassVar = {"lr": 0.125, "alpha": 0.75, "eps": 0.25, "weight_decay": 0.5}

    def step(self, node: Node, w: Array, g: Array, states: Sequence[Array], count: int) -> tuple[Array, ...]:
        """The updated weight and the mean of the square."""
        step, v = divided(node, w, g, states[0])
        return w - w.dtype.type(RATE.of(node)) * step, v


@register
class ScaledRMSprop(ScaledUpdate, of=RMSprop):
    """RMSprop of a gradient times a number."""


BUFFERED_SETTINGS = (*RMSPROP_SETTINGS, MOMENTUM)


@register
class RMSpropMomentum(WeightUpdate):
    """B' = momentum b + g / (sqrt(v') + eps) with RMSprop's v', and w' = w - lr b', all in place.

    RMSprop whose steps go on, as PyTorch has it.
    """

    name = "RMSpropMomentum"
    training = Optimizer("rmsprop", rate=RATE.place, states={2: SQUARE, 3: BUFFER}, settings=BUFFERED_SETTINGS)
    file = FileSpec(custom=update_signature(training))
    kernel = update_kernel("rmsprop_momentum_f32", ("v", "b"), BUFFERED_SETTINGS, (ALPHA.place,))
    inplace: ClassVar[dict[int, int]] = {0: 0, 1: 2, 2: 3}
    cost = 0
    transcendentals = 1
    given: ClassVar = {"lr": 0.125, "alpha": 0.75, "eps": 0.25, "weight_decay": 0.5, "momentum": 0.75}

    def step(self, node: Node, w: Array, g: Array, states: Sequence[Array], count: int) -> tuple[Array, ...]:
        """The updated weight, the mean of the square and the step."""
        step, v = divided(node, w, g, states[0])
        rate, share = (w.dtype.type(s.of(node)) for s in (RATE, MOMENTUM))
        b = share * states[1] + step
        return w - rate * b, v, b


@register
class ScaledRMSpropMomentum(ScaledUpdate, of=RMSpropMomentum):
    """RMSpropMomentum of a gradient times a number."""
