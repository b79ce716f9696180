"""AdamW: moments of the gradient, corrected for their start at zero, and decay of the weight, all in place."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Broadcast, Dim, Operand
from deployer.core.declarations import Optimizer, Sequences, Setting, State
from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import (
    ArgValue,
    Array,
    Const,
    Extent,
    Kernel,
    Sample,
    Work,
    mismatch,
    register,
    rng,
    unsupported,
)
from deployer.operators.elementwise import Flat
from deployer.operators.inputs import arrays, normal, operands

LEARNING_RATE = 0.001
NUMBERS = {"alpha": 0.9, "beta": 0.999, "epsilon": 1e-8, "weight_decay": 0.01}
"""Attributes with what they are where absent, as in ONNX Runtime."""
CHOICES = (
    Setting("beta1", "share that the mean of the gradient keeps", NUMBERS["alpha"], "alpha", most=1.0),
    Setting("beta2", "share that the mean of its square keeps", NUMBERS["beta"], "beta", most=1.0),
    Setting("eps", "what is added to the root of the gradient's mean square", NUMBERS["epsilon"], "epsilon", ends="()"),
    Setting("weight-decay", "share of the weight that a step takes off, times the rate", NUMBERS["weight_decay"]),
)
SETTINGS = {**dict.fromkeys(NUMBERS, "FLOAT"), "adam_mode": "INT", "correct_bias": "INT"}


@register
class AdamW(Flat):
    """Inputs are weight, gradient, both moments and the number of the update, from 1 on.

    `adam_mode` 0 lets the weight decay first and adds epsilon to the corrected root, as PyTorch does; 1 the reverse, as
    Hugging Face's. Without `correct_bias` the moments are taken as they are, which mode 0 does not know.
    """

    name = "AdamW"
    custom = Form((5, 5), (1, 3), {"lr": "FLOAT", **SETTINGS})
    domain = ""
    flags = ("adam_mode", "correct_bias")
    optimizer = Optimizer(
        "adamw",
        rate="lr",
        states={2: State("_first_moment"), 3: State("_second_moment")},
        count=4,
        sequences=Sequences("AdamWOptimizer", Form((6, 6), (1, 4), SETTINGS), {1: 4, 2: 0, 3: 1, 4: 2, 5: 3}),
        settings=CHOICES,
        default_rate=LEARNING_RATE,
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

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """A root and a quotient beside a dozen operations per element."""
        return Work(macs=0, elements=tile["n"] * FACTS.transcendental, parallel=tile["n"])

    def samples(self) -> Iterator[Sample]:
        """First and later updates, both modes, with and without correction and decay."""
        r = rng(15)
        late: dict[str, AttrValue] = {"adam_mode": 1, "weight_decay": 0.0, "epsilon": 1e-6, "lr": 0.002}
        forms: dict[str, tuple[int, dict[str, AttrValue]]] = {
            "default": (1, {}),
            "first_late": (1, late),
            "late": (40, late | {"weight_decay": 0.125}),
            "uncorrected": (3, late | {"correct_bias": 0}),
            "numbers": (1000, {"lr": 0.125, "alpha": 0.5, "beta": 0.75, "epsilon": 0.25, "weight_decay": 0.5}),
        }
        for label, (count, attrs) in forms.items():
            w, g, m, v = (normal(r, 5, 7) for _ in range(4))
            inputs = (w, g, m, np.square(v), np.array([count], np.int32))
            yield Sample(label, inputs, attrs, outputs=3, onnx=False)


def _number(node: Node, name: str) -> float:
    return float(np.float32(node.attr_float(name, NUMBERS[name])))


def _numbers(node: Node) -> dict[str, float]:
    """The attributes as the float32 numbers that the kernel gets."""
    rate = {"lr": float(np.float32(node.attr_float("lr", LEARNING_RATE)))}
    return rate | {name: _number(node, name) for name in NUMBERS}


def _shares(node: Node) -> tuple[float, float]:
    """What decay leaves of the weight before the step, and of the result after it."""
    numbers = _numbers(node)
    left = 1 - numbers["lr"] * numbers["weight_decay"]
    return (1.0, left) if node.attr_int("adam_mode", 0) else (left, 1.0)
