"""Frozen parts of models, what is folded into their layers, and what is refused."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from deployer.core.errors import DeployerError, GraphProblem, OptionProblem
from deployer.quantization.options import Quantization
from deployer.quantization.quantize import ModelToQuantize
from deployer.training.batches import fitted_samples
from DeployTest.quantization.nets import Net, by_reference, by_runtime, classifier, operators
from DeployTest.quantization.test_written import quantized
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host]


@pytest.mark.parametrize(
    ("freeze", "inside", "border"),
    [
        ("^features", {"features.0.out", "features.3.out", "b", "d"}, "e/dequantized"),
        ("features.[01]", {"features.0.out", "b"}, "b/dequantized"),
        (r"features\.0\.weight", {"features.0.out"}, "features.0.out/dequantized"),
        ("^features.0.out$", {"features.0.out"}, "features.0.out/dequantized"),
    ],
)
def test_borders(freeze: str, inside: set[str], border: str, tmp_path: Path) -> None:
    """All in front of the first layer that no name says is of 8 bits, pools too, and the layer reads floats of it."""
    net = classifier()
    out, result = quantized(net.save(tmp_path / "net.onnx", "head.out"), net.samples(), Quantization(freeze))
    assert {row.name for row in result.layers} == inside
    model = onnx.load(out)
    readers = [n.op_type for n in model.graph.node if border in n.input]
    assert readers == [{"e": "Gemm", "b": "Conv", "f": "BatchNormalization"}[border[0]]]
    trained = {t.name for t in model.graph.initializer} & set(net.arrays)
    assert {"head.weight", "head.bias"} <= trained
    assert ("features.1.weight" in trained) == (border[0] == "f")
    assert_close("head", by_reference(out, net.samples()).astype(np.float32), by_runtime(out, net.samples()))


def test_a_norm_is_frozen_with_its_layer(tmp_path: Path) -> None:
    """A norm that is trained is not folded into a frozen convolution, and a frozen one leaves nothing behind."""
    net = classifier()
    path = net.save(tmp_path / "net.onnx", "head.out")
    out, result = quantized(path, net.samples(), Quantization(r"features\.[013]"))
    assert result.folded == [("features.1.out", "features.0.out")]
    assert "BatchNormalization" not in {n.op_type for n in onnx.load(out).graph.node}
    out, result = quantized(path, net.samples(), Quantization(r"features\.0"))
    assert result.folded == []
    assert "ChannelNormalize" in operators(out)


def _folded(net: Net, output: str, folder: Path) -> ModelToQuantize:
    return ModelToQuantize(net.save(folder / "net.onnx", output), Quantization())


@pytest.mark.parametrize("kind", ["image", "bare", "signal", "matrix", "depthwise"])
def test_folding(kind: str, tmp_path: Path) -> None:
    """The folded layer in float64 is the layer and the norm in float64, but for the rounding of its parameters."""
    net = Net({"signal": (4, 9), "matrix": (4,)}.get(kind, (4, 6, 5)), seed=3)
    if kind == "matrix":
        first = net.linear("x", "layer", 4, 6)
    else:
        depthwise = kind == "depthwise"
        group = {"group": 4} if depthwise else {}
        first = net.conv("x", "layer", 1 if depthwise else 4, 4 if depthwise else 6, bias=kind != "bare", **group)
    channels = 4 if kind == "depthwise" else 6
    net.norm(first, "norm", channels, epsilon=1e-3)
    made = _folded(net, "norm.out", tmp_path)
    assert made.folded == [("norm.out", "layer.out")]
    (node,) = made.graph.nodes
    weights, bias = (made.graph.array(name) for name in node.input[1:3])
    layer, scale = net.arrays, net.arrays["norm.weight"].astype(np.float64)
    factor = scale / np.sqrt(layer["norm.var"].astype(np.float64) + np.float64(np.float32(1e-3)))
    old_bias = layer.get("layer.bias", np.zeros(channels))
    right = layer["layer.weight"] * factor.reshape(-1, *[1] * (weights.ndim - 1))
    np.testing.assert_array_max_ulp(weights, right.astype(np.float32), 0)
    moved = (old_bias - layer["norm.mean"].astype(np.float64)) * factor + layer["norm.bias"]
    np.testing.assert_array_max_ulp(bias, moved.astype(np.float32), 0)
    onnx.save(made.graph.proto(), tmp_path / "folded.onnx")
    x = net.samples()
    before, after = (by_runtime(tmp_path / f"{name}.onnx", x) for name in ("net", "folded"))
    assert_close("folded layer", after, before)


@pytest.mark.parametrize("opset", [10, 13, 18])
def test_padding_and_means(opset: int, tmp_path: Path) -> None:
    """Zeros around images join the pads of a convolution, and means over images are pools: all is of 8 bits."""
    net = Net((2, 6, 5), opset=opset)
    sides, axes = [0, 0, 1, 0, 0, 0, 2, 1], [2, -1]
    if opset < 11:
        net.op("Pad", ["x"], "p", pads=sides)
    else:
        net.op("Pad", ["x", net.constant("sides", sides, np.int64), net.constant("zero", 0.0)], "p")
    net.op("Relu", [net.conv("p", "first", 2, 4, pads=[0, 1, 0, 0])], "a")
    if opset < 18:
        net.op("ReduceMean", ["a"], "m", axes=axes, keepdims=0)
    else:
        net.op("ReduceMean", ["a", net.constant("axes", axes, np.int64)], "m", keepdims=0)
    net.linear("m", "head", 4, 3)
    path, x = net.save(tmp_path / "net.onnx", "head.out"), net.samples()
    out, result = quantized(path, x, Quantization(per_channel=opset >= 13))
    assert result.folded == [("p", "first.out")]
    assert [row.op for row in result.layers] == ["Conv", "GlobalAveragePool", "Gemm"]
    assert not result.float_nodes
    assert result.output_snr_db["head.out"] > 30
    np.testing.assert_array_equal(by_reference(out, x), by_runtime(out, x))
    floats, ours = by_runtime(path, x), by_reference(out, x)
    assert np.square(floats - ours).sum() < 1e-3 * np.square(floats).sum()


@pytest.mark.parametrize("fault", ["ones", "reflected", "channels", "behind", "cut", "read twice", "mean of rows"])
def test_other_padding_and_means(fault: str, tmp_path: Path) -> None:
    """Padding that a convolution does not have, and means over other axes, stay nodes of floats."""
    net = Net((2, 6, 6))
    sides = {
        "channels": [0, 2, 0, 0, 0, 0, 0, 0],
        "behind": [0, 0, 0, 0, 0, 2, 0, 0],
        "cut": [0, 0, -1, 0, 0, 0, 0, 0],
    }.get(fault, [0, 0, 1, 1] * 2)
    filling = net.constant("filling", 1.0 if fault == "ones" else 0.0)
    mode = {"mode": "reflect"} if fault == "reflected" else {}
    if fault == "mean of rows":
        net.op("ReduceMean", ["x"], "p", axes=[3], keepdims=1)
    else:
        net.op("Pad", ["x", net.constant("sides", sides, np.int64), *([] if mode else [filling])], "p", **mode)
    net.conv("p", "first", 4 if fault in ("channels", "behind") else 2, 4)
    outputs = ["first.out"] + (["p"] if fault == "read twice" else [])
    made = ModelToQuantize(net.save(tmp_path / "net.onnx", *outputs), Quantization())
    assert made.folded == []
    assert set(made.choice.float_nodes) == {"p"}


def test_what_is_not_folded(tmp_path: Path) -> None:
    """A norm behind a layer that something else reads stays one of floats; so does one behind a sum."""
    net = Net((4, 6, 6))
    first = net.conv("x", "layer", 4, 4)
    net.op("Add", [net.norm(first, "norm", 4), first], "y")
    made = _folded(net, "y", tmp_path)
    assert made.folded == []
    assert made.choice.float_nodes == {"norm.out": "BatchNormalization has no integer form"}


def _behind() -> Net:
    net = Net((2, 6, 6))
    middle = net.conv(net.conv("x", "first", 2, 4), "second", 4, 4)
    net.conv(middle, "third", 4, 4)
    return net


@pytest.mark.parametrize(
    ("freeze", "kind", "words"),
    [
        ("first|third", GraphProblem, ["'third.out' lies behind 'second.out'", "third.weight", "second.weight"]),
        ("fourth", OptionProblem, ["found in no parameter's name", "second.bias", "third.weight"]),
        ("(", OptionProblem, ["no regular expression"]),
    ],
)
def test_refused_expressions(freeze: str, kind: type[DeployerError], words: list[str], tmp_path: Path) -> None:
    """Each error names what is wrong and both layers, and following it leads on."""
    path = _behind().save(tmp_path / "net.onnx", "third.out")
    with pytest.raises(kind) as caught:
        ModelToQuantize(path, Quantization(freeze))
    assert all(word in str(caught.value) for word in words), caught.value
    for other in ("first|second|third", "first"):
        assert ModelToQuantize(path, Quantization(other)).part


def test_refused_models(tmp_path: Path) -> None:
    """A model of 8 bits, one of an old opset, and one without a layer are refused with a way out."""
    net = classifier()
    out, _ = quantized(net.save(tmp_path / "net.onnx", "head.out"), net.samples())
    with pytest.raises(GraphProblem, match="quantized already"):
        ModelToQuantize(out, Quantization())
    old = Net((2, 6, 6), opset=11)
    path = old.save(tmp_path / "old.onnx", old.conv("x", "first", 2, 4))
    with pytest.raises(OptionProblem, match="opset is too old") as caught:
        ModelToQuantize(path, Quantization())
    assert "--per-tensor" in caught.value.hint
    out, _ = quantized(path, old.samples(), Quantization(per_channel=False))
    np.testing.assert_array_equal(by_reference(out, old.samples()), by_runtime(out, old.samples()))
    none = Net((2, 6, 6))
    none.op("Sigmoid", ["x"], "y")
    with pytest.raises(GraphProblem, match="no layer"):
        ModelToQuantize(none.save(tmp_path / "none.onnx", "y"), Quantization())


@pytest.mark.parametrize(("method", "percent"), [("mean", 99.0), ("percentile", 0.0), ("percentile", 101.0)])
def test_refused_methods(method: str, percent: float) -> None:
    """Methods and shares that are none."""
    with pytest.raises(OptionProblem):
        Quantization(None, method, percent)


def test_convolutions_without_a_form(tmp_path: Path) -> None:
    """A layer that the reader of quantized models refuses stays float, with the reason; the others are quantized."""
    net = Net((2, 6, 6))
    net.op("Conv", [net.conv("x", "first", 2, 4), net.weight("second.weight", 4, 4, 3, 3)], "a", auto_pad="SAME_UPPER")
    net.op("MaxPool", [net.conv("a", "third", 4, 4)], "y", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    out, result = quantized(net.save(tmp_path / "net.onnx", "y"), net.samples())
    assert set(result.float_nodes) == {"a", "y"}
    assert "auto_pad" in result.float_nodes["a"]
    assert "ceil_mode" in result.float_nodes["y"]
    # ONNX Runtime's rewrites would quantize the float layer's weights; as written, rounding of floats may move a code
    step = result.layers[-1].scale
    ours, theirs = by_reference(out, net.samples()), by_runtime(out, net.samples(), as_written=True)
    assert np.abs(ours - theirs).max() < 1.01 * step
    assert (ours != theirs).mean() < 0.05


def test_samples_without_a_range(tmp_path: Path) -> None:
    """Values that are not finite, and those that are zero for all samples, are named."""
    net = Net((2, 6, 6))
    net.conv("x", "first", 2, 4, bias=False)
    net.op("Relu", ["first.out"], "y")
    path = net.save(tmp_path / "net.onnx", "y")
    made = ModelToQuantize(path, Quantization())
    with pytest.raises(DeployerError, match="'x' is 0 for all samples") as caught:
        made.write(fitted_samples({"x": np.zeros((8, 2, 6, 6), np.float32)}, made.inputs), tmp_path / "z.onnx")
    assert caught.value.hint
    net.arrays["first.weight"][:] = 3e38
    made = ModelToQuantize(net.save(path, "y"), Quantization())
    with pytest.raises(DeployerError, match="'y' has no range: it is not finite") as caught:
        made.write(fitted_samples({"x": np.ones((8, 2, 6, 6), np.float32)}, made.inputs), tmp_path / "n.onnx")
    assert caught.value.hint
