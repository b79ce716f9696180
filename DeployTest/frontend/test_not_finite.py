"""Operators over NaN, infinities and the largest floats: what ONNX says of each, where others say something else."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from deployer.core.errors import DatasetMismatch, ShapeMismatch, UnsupportedOperator
from deployer.verify.reference import run_inference
from DeployTest.support.graphs.small_graphs import chain, constant, infer, node, raises

pytestmark = [pytest.mark.host, pytest.mark.models]
NAN, INF = float("nan"), float("inf")

RECURRENT = {"RNN": (1, "Relu"), "GRU": (3, "Sigmoid", "Tanh"), "LSTM": (4, "Sigmoid", "Tanh", "Tanh")}
"""Layers with their numbers of gates and the activations of these."""


@pytest.mark.parametrize("op", RECURRENT)
def test_recurrent_layers_of_nan(op: str, tmp_path: Path) -> None:
    """NaN in a row is in all that comes of it, as each activation keeps it, in ONNX Runtime as well."""
    gates, *activations = RECURRENT[op]
    x = np.array([NAN, 1, -1, -2], np.float32)
    for name in activations:
        plain = chain(node(name, ("x",), ("y",)), x=(4,)).save(tmp_path / f"{name}.onnx")
        (alone,) = onnxruntime.InferenceSession(str(plain)).run(None, {"x": x})
        np.testing.assert_array_equal(np.isnan(alone), np.isnan(x))
    weights = [constant(name, np.ones((1, 2 * gates, 2), np.float32)) for name in ("w", "r")]
    layer = node(op, ("x", "w", "r"), ("y",), hidden_size=2, activations=activations)
    program = infer(tmp_path, chain(layer, x=(1, 2, 2), initializers=weights))
    y = run_inference(program, {"x": x.reshape(1, 2, 2)})["y"]
    np.testing.assert_array_equal(np.isnan(y.reshape(2, 2)), [[True, True], [False, False]])


def test_resize_spreads_nan(tmp_path: Path) -> None:
    """A limit: an axis is a product with a table of shares, of which those that are 0 keep a NaN of its line too."""
    sizes = constant("sizes", np.array([1, 1, 4, 6]))
    program = infer(
        tmp_path,
        chain(node("Resize", ("x", "", "", "sizes"), ("y",), mode="linear"), x=(1, 1, 2, 3), initializers=[sizes]),
    )
    x = np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)
    assert np.isfinite(run_inference(program, {"x": x})["y"]).all()
    x[0, 0, 0, 0] = NAN
    assert np.isnan(run_inference(program, {"x": x})["y"]).all()


@pytest.mark.parametrize("row", [[INF, 1, 2], [-INF, -INF, -INF], [-INF, 0, 1], [1, NAN, 2]], ids=str)
def test_logarithm_of_sums_of_infinities(row: list[float], tmp_path: Path) -> None:
    """A row without a maximum among numbers still has the logarithm of its sum."""
    program = infer(tmp_path, chain(node("ReduceLogSumExp", ("x",), ("y",), axes=[1], keepdims=0), x=(1, 3)))
    x = np.array([row], np.float32)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(run_inference(program, {"x": x})["y"], np.logaddexp.reduce(x, 1), rtol=1e-6)


def test_lrn_reads_its_neighbours_alone(tmp_path: Path) -> None:
    """ONNX: `max(0, c - floor((size - 1) / 2)) <= i <= min(C - 1, c + ceil((size - 1) / 2))`."""
    program = infer(tmp_path, chain(node("LRN", ("x",), ("y",), size=3), x=(1, 4, 1, 1)))
    x = np.array([INF, 1, 1, 1], np.float32).reshape(1, 4, 1, 1)
    y = run_inference(program, {"x": x})["y"].reshape(4)
    np.testing.assert_allclose(y[1:], [0, (1 + 3e-4 / 3) ** -0.75, (1 + 2e-4 / 3) ** -0.75], rtol=1e-6)


def test_lp_normalization_of_large_numbers(tmp_path: Path) -> None:
    """A limit: where the sum of squares is beyond float32 the length is infinite, as in ONNX Runtime."""
    program = infer(tmp_path, chain(node("LpNormalization", ("x",), ("y",), axis=1, p=2), x=(1, 2)))
    x = np.array([[2e38, -1]], np.float32)
    (expected,) = onnxruntime.InferenceSession(str(tmp_path / "network.onnx")).run(None, {"x": x})
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(run_inference(program, {"x": x})["y"], expected)


def test_pow_by_a_half(tmp_path: Path) -> None:
    """Not the root: of minus infinity it is infinity and of minus zero zero, by IEEE 754's pow and ONNX Runtime."""
    half = constant("half", np.array([0.5], np.float32))
    program = infer(tmp_path, chain(node("Pow", ("x", "half"), ("y",)), x=(6,), initializers=[half]))
    x = np.array([-INF, -2, -0.0, 0, 2, INF], np.float32)
    (expected,) = onnxruntime.InferenceSession(str(tmp_path / "network.onnx")).run(None, {"x": x})
    with np.errstate(invalid="ignore"):
        y = run_inference(program, {"x": x})["y"]
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(np.signbit(y[2:4]), [False, False])
    np.testing.assert_array_equal(np.signbit(expected[2:4]), [False, False])


@pytest.mark.parametrize("alpha", [1e20, 3.4e38])
def test_celu_of_a_huge_alpha(alpha: float, tmp_path: Path) -> None:
    """ONNX: `max(0,x) + min(0,alpha*(exp(x/alpha)-1))`, of which x is the limit."""
    program = infer(tmp_path, chain(node("Celu", ("x",), ("y",), alpha=alpha), x=(4,)))
    x = np.array([-30, -0.5, 0, 2], np.float32)
    np.testing.assert_allclose(run_inference(program, {"x": x})["y"], x, rtol=1e-5)


@pytest.mark.parametrize("alpha", [0.0, -0.0, 1e-50])
def test_celu_without_alpha(alpha: float, tmp_path: Path) -> None:
    """An attribute that a formula divides by must not be 0 in float32."""
    with raises(UnsupportedOperator, "(Celu)", "divides by 'alpha'"):
        infer(tmp_path, chain(node("Celu", ("x",), ("y",), alpha=alpha), x=(4,)))


def test_normalized_constant(tmp_path: Path) -> None:
    """ONNX: `(X-EX)/sqrt(E(X-EX)^2)`, whose root is of no number below 0; its body adds 1e-9 to the root."""
    program = infer(tmp_path, chain(node("MeanVarianceNormalization", ("x",), ("y",)), x=(5, 1, 3, 4)))
    x = np.ones((5, 1, 3, 4), np.float32)
    np.testing.assert_array_equal(run_inference(program, {"x": x})["y"], np.zeros_like(x))
    for number in (0.1, -3.3, 1e-3, 7e4):  # whose mean is rounded
        assert np.isfinite(run_inference(program, {"x": number * x})["y"]).all()


def test_clip_of_the_cell(tmp_path: Path) -> None:
    """ONNX: `applied to the input of activations`, and the last one, of the cell's state, is one of them."""
    weights = [constant("w", np.full((1, 4, 1), 5, np.float32)), constant("r", np.zeros((1, 4, 1), np.float32))]
    weights += [constant("b", np.zeros((1, 8), np.float32)), constant("s", np.full((1, 1, 1), 2, np.float32))]
    places = ("x", "w", "r", "b", "", "s", "s")
    layer = node("LSTM", places, ("y",), hidden_size=1, clip=0.25, activations=["Sigmoid", "Tanh", "Relu"])
    program = infer(tmp_path, chain(layer, x=(1, 1, 1), initializers=weights))
    y = run_inference(program, {"x": np.ones((1, 1, 1), np.float32)})["y"]
    assert y.item() == pytest.approx(0.25 / (1 + np.exp(-0.25)))


def test_default_threshold_of_a_layer(tmp_path: Path) -> None:
    """ONNX: `default values are the same as of corresponding ONNX operators`, ThresholdedRelu's among them."""
    x = np.array([0.5, 0.99, 1.5, -2], np.float32)
    chain(node("ThresholdedRelu", ("x",), ("y",)), x=(4,)).save(tmp_path / "alone.onnx")
    (due,) = ReferenceEvaluator(str(tmp_path / "alone.onnx")).run(None, {"x": x})
    weights = [constant("w", np.eye(4, dtype=np.float32)[None]), constant("r", np.zeros((1, 4, 4), np.float32))]
    layer = node("RNN", ("x", "w", "r"), ("y",), hidden_size=4, activations=["ThresholdedRelu"])
    program = infer(tmp_path, chain(layer, x=(1, 1, 4), initializers=weights))
    np.testing.assert_array_equal(run_inference(program, {"x": x.reshape(1, 1, 4)})["y"].reshape(-1), due)


MOVED = [((5, 7), (7, 3)), ((5, 2, 7), (7, 3)), ((7,), (2, 7, 3)), ((2, 2, 2), (2, 2, 2)), ((3, 2, 2), (2, 3, 2, 2))]


@pytest.mark.parametrize("flag", ["transBatchA", "transBatchB"])
@pytest.mark.parametrize("shapes", MOVED, ids=str)
def test_batch_that_moves(shapes: tuple[tuple[int, ...], tuple[int, ...]], flag: str, tmp_path: Path) -> None:
    """ONNX Runtime moves the first axis of operands of equal ranks above two alone: another flag is not passed over."""
    inner = node("FusedMatMul", ("x", "w"), ("y",), **{flag: 1})
    inner.domain = "com.microsoft"
    model = chain(inner, x=shapes[0], initializers=[constant("w", np.ones(shapes[1], np.float32))])
    right = len(shapes[0]) == len(shapes[1]) > 2
    if right:
        infer(tmp_path, model)
    else:
        with raises(ShapeMismatch, flag):
            infer(tmp_path, model)


def test_grid_sample_beside_nan(tmp_path: Path) -> None:
    """A location beyond the border is the border's own, as in ONNX's reference: its neighbour counts 0 times NaN."""
    model = chain(node("GridSample", ("x", "g"), ("y",), padding_mode="border", align_corners=1), x=(1, 1, 1, 3))
    grid = constant("g", np.array([-1.5, 0, 1.5, 0], np.float32).reshape(1, 1, 2, 2))
    program = infer(tmp_path, replace(model, initializers=(grid,)))
    x = np.array([1, NAN, 3], np.float32).reshape(1, 1, 1, 3)
    (expected,) = ReferenceEvaluator(str(tmp_path / "network.onnx")).run(None, {"x": x})
    np.testing.assert_array_equal(run_inference(program, {"x": x})["y"], expected)


def test_grid_sample_far_from_nan(tmp_path: Path) -> None:
    """A limit: a place outside of X is the element nearest to it times 0, which keeps a NaN of that element."""
    model = chain(node("GridSample", ("x", "g"), ("y",), mode="nearest", align_corners=1), x=(1, 1, 1, 3))
    grid = constant("g", np.array([-3, 0, 3, 0], np.float32).reshape(1, 1, 2, 2))
    program = infer(tmp_path, replace(model, initializers=(grid,)))
    x = np.array([1, 2, NAN], np.float32).reshape(1, 1, 1, 3)
    (due,) = ReferenceEvaluator(str(tmp_path / "network.onnx")).run(None, {"x": x})
    np.testing.assert_array_equal(due.reshape(-1), [0, 0])
    np.testing.assert_array_equal(run_inference(program, {"x": x})["y"].reshape(-1), [0, NAN])


def test_folded_loss(tmp_path: Path) -> None:
    """A label that is no class is refused where the whole loss is a constant, too."""
    arrays = [constant("c", np.zeros((2, 3), np.float32)), constant("labels", np.array([0, 7]))]
    with raises(DatasetMismatch, "'labels' holds label 7"):
        infer(tmp_path, chain(node("SoftmaxCrossEntropyLoss", ("c", "labels"), ("y",)), x=(1,), initializers=arrays))
