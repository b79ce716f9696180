"""Every operator: its meaning against ONNX Runtime, its gradient against differences, its kernel under any tiles."""

import math
from collections.abc import Iterator, Mapping
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deployer.core import plan
from deployer.core.access import Access
from deployer.core.cost import cost_key
from deployer.core.errors import UnsupportedOperator
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Operator, registry
from deployer.core.samples import Sample
from deployer.core.target import load
from deployer.kernel_variants.costs import StepCosts
from deployer.lr_schedules.run_time import kernel_args
from deployer.operators.base.views import Folded
from deployer.testing import check
from deployer.testing.bench import BenchStep, bits, kernel_model, lawful, run_step, step_of
from deployer.testing.check import has_slope, is_lowered
from deployer.testing.gradients import EvaluatingBuilder
from deployer.testing.runtime import run_by_onnx

pytestmark = [pytest.mark.host, pytest.mark.kernels]
MODEL = kernel_model()

EXAMPLES = 16
"""Drawn tilings of an operator in the quick suite; the slow one draws MORE."""
MORE = 80
MOST_TILES = 200
"""Each tile is a call by Python, so more of them are slow."""


def _samples() -> Iterator[tuple[Operator, Sample]]:
    for name, operator in registry().items():
        if name == operator.name:
            yield from ((operator, sample) for sample in operator.samples())


SAMPLES = list(_samples())
OPERATORS = [op for name, op in registry().items() if name == op.name]


def _ids(pairs: list[tuple[Operator, Sample]]) -> list[str]:
    return [f"{op.name}-{sample.label}" for op, sample in pairs]


def _differentiable(operator: Operator) -> bool:
    return type(operator).gradient is not Operator.gradient


ONNX = [(op, s) for op, s in SAMPLES if s.onnx]


DIFFERENTIABLE = [(op, s) for op, s in SAMPLES if _differentiable(op) and has_slope(op, s)]
LOWERED = [(op, s) for op, s in SAMPLES if is_lowered(op, s)]
LOSSES = [(op, s) for op, s in DIFFERENTIABLE if "Loss" in op.name and s.attrs.get("reduction") != "none"]
REFUSED = {("MatMul", label) for label in ("vector_left", "vector_right", "dot")}
REFUSED |= {(name, label) for name in ("ScatterElements", "ScatterRows") for label in ("mul", "max", "min")}
REFUSED |= {(op.name, s.label) for op, s in SAMPLES if s.label.startswith("ordered_")}
"""Samples of differentiable operators that have no rule."""
UNTRAINED = {"BatchNormalization": (3, 4), "SoftmaxCrossEntropyLoss": (2,), "NegativeLogLikelihoodLoss": (2,)}
"""Inputs that have no gradient though the output depends on them: running statistics follow the data, and class weights
are given."""
KERNELS = [(op, s) for op, s in SAMPLES if op.kernel is not None and not is_lowered(op, s)]


@pytest.mark.parametrize(("operator", "sample"), SAMPLES, ids=_ids(SAMPLES))
def test_reference_has_the_inferred_types(operator: Operator, sample: Sample) -> None:
    """`infer` and `reference` agree on the shape and dtype of every output."""
    check.check_types(operator, sample)


@pytest.mark.matrix(keep=250)
@pytest.mark.parametrize(("operator", "sample"), ONNX, ids=_ids(ONNX))
def test_reference_equals_onnxruntime(operator: Operator, sample: Sample) -> None:
    """The numpy meaning is ONNX's."""
    check.check_runtime(operator, sample)


@pytest.mark.parametrize(("operator", "sample"), DIFFERENTIABLE, ids=_ids(DIFFERENTIABLE))
def test_gradient_equals_differences(operator: Operator, sample: Sample) -> None:
    """The rule's nodes, evaluated in float64, give the directional derivative of the reference."""
    found = check.check_gradient(operator, sample, untrained=UNTRAINED.get(operator.name, ()))
    assert bool(found) == ((operator.name, sample.label) not in REFUSED)


@pytest.mark.parametrize(("operator", "sample"), LOSSES, ids=_ids(LOSSES))
def test_gradient_of_a_loss_is_implied(operator: Operator, sample: Sample) -> None:
    """The gradient of a scalar loss may arrive as the empty name, which means one."""
    assert check.check_gradient(operator, sample, implied=True, untrained=UNTRAINED.get(operator.name, ()))


@pytest.mark.matrix(keep=150)
@pytest.mark.parametrize(("operator", "sample"), LOWERED, ids=_ids(LOWERED))
def test_lowered_nodes_mean_the_same(operator: Operator, sample: Sample) -> None:
    """The nodes of `lower`, each by its reference, give the operator's own reference."""
    check.check_lowered(operator, sample)


@pytest.mark.parametrize(("operator", "sample"), KERNELS, ids=_ids(KERNELS))
def test_access_fits_the_kernel(operator: Operator, sample: Sample) -> None:
    """Operands are the kernel's pointers in order, every scalar has a value, and work is positive."""
    check.check_access(operator, sample)


@pytest.mark.parametrize("outputs", [1, 3])
def test_saved_statistics_are_not_computed_again(outputs: int) -> None:
    """The gradient of LayerNormalization takes the mean and deviation that the node gives, where it gives them."""
    operator = registry()["LayerNormalization"]
    step = step_of(operator, Sample("saved", (np.ones((3, 4), np.float32), np.ones(4, np.float32)), {}, outputs))
    builder = EvaluatingBuilder(step.node, {**step.types, "dout": step.types["x0"]}, [0, 1])
    operator.gradient(step.node, ["dout", "", ""][:outputs], builder)
    again = ["LayerNormalization"] if outputs == 1 else []
    assert [node.op for node in builder.nodes] == [*again, "LayerNormalizationGrad"]


def test_max_pool_passes_over_nan() -> None:
    """As in ONNX Runtime, and as in the kernel: the maximum is that of the numbers in a window."""
    x = np.array([np.nan, 5, 2, np.nan, 1, np.nan, 3, 4], np.float32).reshape(1, 1, 8)
    step = step_of(registry()["MaxPool"], Sample("nan", (x,), {"kernel_shape": (2,), "strides": (2,)}))
    [reference] = step.operator.reference(step.node, step.arrays)
    [kernel] = run_step(step, step.access.sizes)
    np.testing.assert_array_equal(reference, run_by_onnx(step)[0])
    np.testing.assert_array_equal(kernel, reference)


@pytest.mark.parametrize("name", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
def test_label_below_zero(name: str) -> None:
    """ONNX has no meaning for it; nothing silent comes of it: NaN, in the kernel and in its meaning."""
    x = np.log(np.full((2, 3), 1 / 3, np.float32))
    step = step_of(registry()[name], Sample("below", (x, np.array([0, -1], np.int32)), {"reduction": "none"}))
    losses = [step.operator.reference(step.node, step.arrays)[0]]
    losses += [run_step(step, step.access.sizes)[0]] if step.operator.kernel else []
    for loss in losses:
        np.testing.assert_array_equal(np.isnan(loss), [False, True])


BY_KERNEL = {op.name: [s for o, s in KERNELS if o is op] for op in OPERATORS if any(o is op for o, _ in KERNELS)}
TILED = sorted(name for name in BY_KERNEL if not getattr(registry()[name], "declared_by", ""))
"""Operators whose tiles are drawn: printed kernels of backward passes are of the same two forms as forward ones."""


def few_tiles(access: Access, lengths: Mapping[str, int]) -> dict[str, int]:
    """Legal lengths from these, of at most MOST_TILES tiles: the dim of most tiles gets longer ones until then."""
    sizes = lawful(access, lengths)
    while True:
        counts = {d.name: -(-d.size // sizes[d.name]) for d in access.dims}
        if math.prod(counts.values()) <= MOST_TILES:
            return sizes
        most = max(counts, key=lambda name: counts[name])
        sizes = lawful(access, {**sizes, most: sizes[most] + 1})


@cache
def _whole(name: str) -> list[tuple[BenchStep, list[bytes]]]:
    """The steps of an operator's samples, with what the kernel gives for each in one tile on one core."""
    steps = [step_of(registry()[name], sample) for sample in BY_KERNEL[name]]
    return [(step, [bits(x) for x in run_step(step, step.access.sizes)]) for step in steps]


@pytest.mark.parametrize("examples", [EXAMPLES, pytest.param(MORE, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", TILED)
def test_tiles_give_the_same_bits(name: str, examples: int) -> None:
    """Any tiles, cores in any order, packed or resident operands: the bits of the whole step on one core."""
    drawn = settings(
        max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    drawn(given(data=st.data())(_tiles_give_the_same_bits))(name=name)


def _tiles_give_the_same_bits(name: str, data: st.DataObject) -> None:
    step, untiled = data.draw(st.sampled_from(_whole(name)))
    lengths = {d.name: data.draw(st.one_of(st.just(1), st.integers(1, d.size))) for d in step.access.dims}
    sizes = few_tiles(step.access, lengths)
    cores = data.draw(st.permutations(range(data.draw(st.integers(1, 9)))))
    resident = [o.arg for o in step.access.operands if data.draw(st.booleans())]
    tiled = run_step(step, sizes, cores, resident)
    assert [bits(x) for x in tiled] == untiled


@pytest.mark.parametrize("operator", [op for op in OPERATORS if isinstance(op, Folded)], ids=lambda op: op.name)
def test_folded_operators_never_reach_the_target(operator: Operator) -> None:
    """A node that was not folded is an error that names it."""
    step = step_of(operator, next(operator.samples()))
    with pytest.raises(UnsupportedOperator, match="could not be folded"):
        operator.lower(step.node, step.inputs)


def test_smallest_image() -> None:
    """Without its shape, X is what the windows just fill: each axis has two pads of its own."""
    operator = registry()["ConvGradX"]
    node = Node("node", operator.name, ("dy", "w"), ("dx",), {"pads": (1, 0, 2, 1)})
    dy, w = TensorType("float32", (1, 3, 4, 5)), TensorType("float32", (3, 2, 3, 3))
    assert operator.infer(node, (dy, w))[0].shape == (1, 2, 4 + 2 - 1 - 2, 5 + 2 - 0 - 1)


@pytest.mark.parametrize(("count", "copies"), [(3, 2), (4, 2), (7, 3), (8, 3), (16, 4)])
def test_joins_are_halved(count: int, copies: int) -> None:
    """Of many inputs, Concat copies each element once per level of halves."""
    operator, deepest = registry()["Concat"], 0
    waiting = [(Node("node", operator.name, tuple(f"x{i}" for i in range(count)), ("y",), {"axis": 0}), 1)]
    while waiting:
        node, depth = waiting.pop()
        lowered = operator.lower(node, [TensorType("float32", (1,))] * len(node.inputs))
        deepest = max(deepest, depth)
        waiting += [(inner, depth + 1) for inner in (lowered or [])[:-1]]
    assert deepest == copies


@pytest.mark.parametrize(("name", "shares"), [("ChannelMoments", 1), ("ChannelGradSums", 1), ("ChannelNormalize", 12)])
def test_what_cores_share_of_a_channel(name: str, shares: int) -> None:
    """One core computes all of a channel's sums; where there are none, the cores share its elements."""
    step = step_of(registry()[name], next(registry()[name].samples()))
    assert step.access is not None
    work = registry()[name].work(step.node, step.access, {"n": 3, "c": 1, "s": 4}, MODEL)
    assert work.parallel == shares


def _codes(x: tuple[int, ...], w: tuple[int, ...], attrs: dict[str, AttrValue]) -> list[str]:
    """Whose costs those of a layer, its gradient of X and that of W are on Siracusa, each in one tile."""
    data, taps = np.ones(x, np.float32), np.ones(w, np.float32)
    dy = registry()["Conv"].reference(Node("", "Conv", ("x", "w"), ("y",), attrs), (data, taps))[0]
    cases = (
        ("Conv", Sample("", (data, taps), attrs)),
        ("ConvGradX", Sample("", (dy, taps), {**attrs, "input_shape": x[2:]})),
        ("ConvGradW", Sample("", (dy, data), {**attrs, "kernel_shape": w[2:]})),
    )
    return [_code(step_of(registry()[name], sample)) for name, sample in cases]


def _code(step: BenchStep) -> str:
    """A function for such calls of the kernel, where there is one, and the form of its work."""
    kernel, arguments = step.operator.kernel, kernel_args(step.node, step.access, MODEL)
    assert kernel is not None
    made = plan.Step(0, "infer", step.node, kernel, step.access, arguments, 0)
    code, work = StepCosts(made, load("siracusa")).of(step.access.sizes)
    return cost_key(code, work.cost_class).removeprefix(kernel.symbol).removeprefix(".")


@pytest.mark.parametrize(
    ("side", "attrs", "forms"),
    [
        (3, {"pads": (1, 1, 1, 1)}, ["planes", "planes"]),
        (3, {"pads": (1, 1, 1, 0)}, ["planes", "lines"]),
        (3, {"pads": (1, 2, 1, 1)}, ["lines", "planes"]),
        (3, {"pads": (2, 1, 2, 1), "dilations": (2, 1)}, ["planes", "planes"]),
        (3, {"pads": (1, 1, 1, 1), "strides": (2, 1)}, ["planes", "lines"]),
        (3, {"pads": (1, 1, 1, 1), "strides": (1, 2)}, ["lines", "lines"]),
        (5, {"pads": (2, 2, 2, 2)}, ["lone", "lone"]),
    ],
)
def test_form_of_depthwise_windows(side: int, attrs: dict[str, AttrValue], forms: list[str]) -> None:
    """The cost model takes for strips what kernels can cut so: only the first and the last column lack a tap, one each.

    The gradient of X wants a tap beside each of its borders, which a layer without padding there does not have.
    """
    assert _codes((1, 8, 9, 9), (8, 1, side, side), {**attrs, "group": 8})[:2] == forms


@pytest.mark.parametrize(
    ("channels", "sides", "attrs", "forms"),
    [
        (8, (6, 8), {"pads": (1, 1, 1, 1)}, ["fours", "fours", "pairs.dense"]),
        (8, (6, 8), {"pads": (1, 2, 1, 1)}, ["threes", "fours", "threes.dense"]),
        (6, (6, 8), {"pads": (1, 1, 1, 1)}, ["", "", "threes.alone"]),
        (8, (6, 10), {"pads": (1, 1, 1, 1)}, ["threes", "threes", "pairs.dense"]),
        (8, (6, 4), {"pads": (1, 1, 1, 1)}, ["threes", "threes", "threes.dense"]),
        (8, (6, 8), {"pads": (2, 1, 2, 1), "dilations": (2, 1)}, ["threes", "threes", "pairs.dense"]),
        (8, (6, 16), {"pads": (1, 1, 1, 1), "strides": (2, 2)}, ["moving", "thinned", "pairs.dense"]),
        (8, (6, 12), {"pads": (1, 1, 1, 1), "strides": (2, 2)}, ["threes", "halves", "pairs.dense"]),
        (8, (6, 15), {"pads": (1, 1, 1, 1), "strides": (2, 2)}, ["threes", "halves", "threes.dense"]),
    ],
)
def test_form_of_whole_rows(
    channels: int, sides: tuple[int, int], attrs: dict[str, AttrValue], forms: list[str]
) -> None:
    """Whole rows go by fours of outputs, in the gradient of W by pairs; other fours of channels by rows of taps.

    Six outputs go one by one there: of eight cores, 18 blocks of four take three turns, 72 of one nine shorter ones.
    """
    assert _codes((1, channels, *sides), (channels, channels, 3, 3), attrs) == forms


@pytest.mark.parametrize(
    ("x", "w", "attrs", "forms"),
    [
        ((1, 1, 25, 10), (16, 1, 10, 4), {"strides": (2, 2)}, ["first", "rows"]),
        ((1, 1, 25, 10), (18, 1, 10, 4), {"strides": (2, 2)}, ["", "fours.wide"]),
        ((1, 1, 25, 10), (16, 1, 10, 4), {"strides": (2, 2), "pads": (1, 0, 1, 0)}, ["fives", "fours.wide"]),
        ((1, 2, 25, 10), (16, 2, 10, 4), {"strides": (2, 2)}, ["fives", "rows"]),
    ],
)
def test_form_of_unpadded_windows(
    x: tuple[int, ...], w: tuple[int, ...], attrs: dict[str, AttrValue], forms: list[str]
) -> None:
    """The cost model takes for a first layer what the kernels take so: one channel, blocks of four, no padding."""
    assert _codes(x, w, attrs)[::2] == forms
