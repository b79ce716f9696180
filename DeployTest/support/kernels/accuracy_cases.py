"""Cases for the accuracy of kernels: functions over realistic lengths, well and badly conditioned."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from deployer.core.ir import AttrValue
from deployer.core.operator import Array
from DeployTest.support.references.peers import Formula

LENGTHS = (64, 576, 2304, 9216, 110592)
"""Terms of a sum: a plane of 8 x 8, the products of a convolution, planes of 48 x 48 and 96 x 96, and 12 of those."""
OFFSET = "mean 100, sd 1"
FAR = ("mean 1013, sd 1", "mean 1e4, sd 1", "mean 1e4, sd 0")
"""Of raw features: the year of a date, a height in metres, and a column that says the same of every row."""


@dataclass(frozen=True, eq=False)
class Case:
    """A node in float32, `trials` times with other numbers; `draw` gives the inputs from a generator.

    `results` names what is judged: outputs by their position, and gradients by "d" and the input's position. `form` is
    the same in PyTorch. `sums` is the length of the sums, `per_element` whether errors are shares of each element.
    `onnx` says that ONNX Runtime computes the outputs, `numpy` that our meaning does without float64 in between.
    `totals` are gradients that are sums of what arrives over these axes, so that ONNX Runtime computes them as well.
    """

    function: str
    data: str
    sums: int
    operator: str
    inputs: Sequence[tuple[str, tuple[int, ...]]]
    results: dict[str, str]
    form: Formula
    attrs: dict[str, AttrValue] = field(default_factory=dict)
    outputs: int = 1
    trials: int = 1
    onnx: bool = True
    numpy: bool = True
    per_element: bool = False
    totals: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def wanted(self) -> tuple[int, ...]:
        """The inputs whose gradients are judged."""
        return tuple(int(place[1:]) for place in self.results.values() if place[0] == "d")

    def draw(self, trial: int) -> list[Array]:
        """The inputs of a trial."""
        random = np.random.default_rng([trial, self.sums])
        return [_draw(random, kind, shape) for kind, shape in self.inputs]


def _draw(random: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Array:
    """Numbers of a kind: `labels` below their last word, or floats."""
    word, _, rest = kind.partition(" ")
    if word == "labels":
        return random.integers(0, int(rest), shape).astype(np.int32)
    if word == "mean":
        mean, deviation = (float(part.split()[-1]) for part in kind.split(","))
        return (mean + deviation * random.standard_normal(shape)).astype(np.float32)
    if word == "logits":
        return (float(rest) + 3 * random.standard_normal(shape)).astype(np.float32)
    if word == "between":
        low, high = map(float, rest.split())
        return random.uniform(low, high, shape).astype(np.float32)
    return random.standard_normal(shape).astype(np.float32)


NORMAL, POSITIVE = "normal", "between 0 1"


def _rows(sums: int) -> int:
    return max(8, min(64, 2**19 // sums))


def _side(sums: int) -> tuple[int, int]:
    """A plane of so many elements, as square as it can be."""
    height = max(h for h in range(1, math.isqrt(sums) + 1) if sums % h == 0)
    return height, sums // height


def _sum_cases() -> Iterator[Case]:
    for n in LENGTHS:
        x, axes = (_rows(n), n), {"axes": (1,), "keepdims": 0}
        for data in (POSITIVE, NORMAL, OFFSET):
            name = {POSITIVE: "0 to 1", NORMAL: "mean 0, sd 1", OFFSET: OFFSET}[data]
            yield Case("sum", name, n, "ReduceSum", [(data, x)], {"Y": "0"}, lambda t, v: v[0].sum(1), axes)
        yield Case("mean", OFFSET, n, "ReduceMean", [(OFFSET, x)], {"Y": "0"}, lambda t, v: v[0].mean(1), axes)
        plane = (1, 32, *_side(n))
        yield Case(
            "mean of a plane", "0 to 1", n, "GlobalAveragePool", [(POSITIVE, plane)], {"Y": "0"},
            lambda t, v: v[0].mean((2, 3), keepdim=True),
        )  # fmt: skip


def _normalization_cases() -> Iterator[Case]:
    for n in LENGTHS:
        for data in (NORMAL, OFFSET, *(FAR if n == LENGTHS[1] else ())):
            label = "mean 0, sd 1" if data == NORMAL else data
            gains = {} if data == FAR[-1] else {"dScale": "d1"}  # which is 0 where nothing deviates
            images = 4
            x = (images, 8, *_side(n // images))
            factors = [(NORMAL, (8,)), (NORMAL, (8,)), (NORMAL, (8,)), (POSITIVE, (8,))]
            yield Case(
                "batch norm", label, n, "BatchNormalization", [(data, x), *factors],
                {"Y": "0", "running mean": "1", "dX": "d0", **gains, "dB": "d2"},
                lambda t, v: t.nn.functional.batch_norm(v[0], v[3], v[4], v[1], v[2], True, 0.1, 1e-5),
                {"training_mode": 1, "epsilon": 1e-5, "momentum": 0.9}, 3,
                totals={"dB": (0, 2, 3)},
            )  # fmt: skip
            rows = [(data, (_rows(n), n)), (NORMAL, (n,)), (NORMAL, (n,))]
            yield Case(
                "layer norm", label, n, "LayerNormalization", rows,
                {"Y": "0", "dX": "d0", **gains, "dB": "d2"},
                lambda t, v: t.nn.functional.layer_norm(v[0], v[1].shape, v[1], v[2], 1e-5),
                {"axis": -1, "epsilon": 1e-5}, totals={"dB": (0,)},
            )  # fmt: skip


def _probability_cases() -> Iterator[Case]:
    for spread, label in (("logits 0", "mean 0, sd 3"), ("logits 10000", "mean 1e4, sd 3")):
        for n in LENGTHS:
            x = [(spread, (_rows(n), n))]
            results = {"Y": "0", "dX": "d0"}
            yield Case("softmax", label, n, "Softmax", x, results, lambda t, v: v[0].softmax(1), {"axis": 1})
            yield Case(
                "log-softmax", label, n, "LogSoftmax", x, {"Y": "0"}, lambda t, v: v[0].log_softmax(1), {"axis": 1}
            )
            scores = [(spread, (n, 10)), ("labels 10", (n,))]
            yield Case(
                "cross entropy", label, n, "SoftmaxCrossEntropyLoss", scores, {"loss": "0", "dX": "d0"},
                lambda t, v: t.nn.functional.cross_entropy(v[0], v[1]), {"reduction": "mean"}, trials=_trials(n),
            )  # fmt: skip
    for n in LENGTHS:
        for data, label in ((NORMAL, "mean 0, sd 1"), (OFFSET, OFFSET)):
            yield Case(
                "mean squared error", label, n, "MSELoss", [(data, (n,)), (data, (n,))], {"loss": "0", "dX": "d0"},
                lambda t, v: t.nn.functional.mse_loss(v[0], v[1]), trials=_trials(n), onnx=False,
            )  # fmt: skip


def _trials(sums: int) -> int:
    return max(8, min(64, 2**20 // sums))


def _product_cases() -> Iterator[Case]:
    for n in LENGTHS:
        conv = [(NORMAL, (1, 2, *_side(n))), (NORMAL, (16, 2, 1, 1)), (NORMAL, (16,))]
        yield Case(
            "bias of a convolution", "mean 0, sd 1", n, "Conv", conv, {"dB": "d2"},
            lambda t, v: t.nn.functional.conv2d(*v), trials=4, totals={"dB": (0, 2, 3)},
        )  # fmt: skip
        dense = [(NORMAL, (n, 2)), (NORMAL, (2, 16)), (NORMAL, (16,))]
        yield Case(
            "bias of a dense layer", "mean 0, sd 1", n, "Gemm", dense, {"dC": "d2"},
            lambda t, v: v[0] @ v[1] + v[2], trials=4, totals={"dC": (0,)},
        )  # fmt: skip
    layers = {64: ((1, 64, 16, 16), (32, 64, 1, 1)), 576: ((1, 64, 12, 12), (32, 64, 3, 3))}
    layers |= {2304: ((1, 256, 8, 8), (32, 256, 3, 3)), 9216: ((1, 1024, 6, 6), (16, 1024, 3, 3))}
    for n, (x, w) in layers.items():
        pad = w[2] // 2
        for data, label in ((NORMAL, "mean 0, sd 1"), (OFFSET, f"X of {OFFSET}")):
            yield Case(
                "convolution", label, n, "Conv", [(data, x), (NORMAL, w)], {"Y": "0", "dX": "d0", "dW": "d1"},
                lambda t, v, pad=pad: t.nn.functional.conv2d(v[0], v[1], padding=pad), {"pads": (pad,) * 4},
                numpy=False,
            )  # fmt: skip
    for n in LENGTHS:
        for data, label in ((NORMAL, "mean 0, sd 1"), (OFFSET, f"A of {OFFSET}")):
            yield Case(
                "matrix product", label, n, "Gemm", [(data, (16, n)), (NORMAL, (n, 16))],
                {"Y": "0", "dA": "d0", "dB": "d1"}, lambda t, v: v[0] @ v[1],
            )  # fmt: skip


def _function_cases() -> Iterator[Case]:
    size = LENGTHS[-1]

    def of(name: str, operator: str, kinds: Sequence[str], form: Formula, wanted: int = 1, **attrs: AttrValue) -> Case:
        inputs = [(kind, (size,)) for kind in kinds]
        label = ", ".join(kind.replace("between ", "").replace(" ", " to ") for kind in kinds)
        results = {"Y": "0", **{f"d{'AB'[i]}": f"d{i}" for i in range(wanted)}}
        return Case(
            name, label, 1, operator, inputs, results, form, dict(attrs), per_element=True, numpy=name != "gelu"
        )

    yield of("exp", "Exp", ["between -20 20"], lambda t, v: v[0].exp())
    yield of("log", "Log", ["between 0 4"], lambda t, v: v[0].log())
    yield of("pow", "Pow", ["between 0 4", "between -3 3"], lambda t, v: v[0] ** v[1])
    yield of("divide", "Div", ["between 1 9", "between 1 9"], lambda t, v: v[0] / v[1], 2)
    yield of("multiply", "Mul", ["between 1 9", "between 1 9"], lambda t, v: v[0] * v[1], 2)
    yield of("gelu", "Gelu", ["between 0 4"], lambda t, v: t.nn.functional.gelu(v[0]))
    yield of("sine", "Sin", ["between -20 20"], lambda t, v: v[0].sin())
    yield of("cosine", "Cos", ["between -20 20"], lambda t, v: v[0].cos())
    yield of("tangent", "Tan", ["between -20 20"], lambda t, v: v[0].tan())
    yield of("arc sine", "Asin", ["between -1 1"], lambda t, v: v[0].asin())
    yield of("arc cosine", "Acos", ["between -1 1"], lambda t, v: v[0].acos())
    yield of("arc tangent", "Atan", ["between -4 4"], lambda t, v: v[0].atan())
    yield of("hyperbolic sine", "Sinh", ["between -4 4"], lambda t, v: v[0].sinh())
    yield of("hyperbolic cosine", "Cosh", ["between -4 4"], lambda t, v: v[0].cosh())
    yield of("area hyperbolic sine", "Asinh", ["between -4 4"], lambda t, v: v[0].asinh())
    yield of("area hyperbolic cosine", "Acosh", ["between 1 9"], lambda t, v: v[0].acosh())
    yield of("area hyperbolic tangent", "Atanh", ["between -1 1"], lambda t, v: v[0].atanh())


CASES = (*_sum_cases(), *_normalization_cases(), *_probability_cases(), *_product_cases(), *_function_cases())
