"""Written models: each computes the same here and in ONNX Runtime, and nearly what the float model computes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from deployer.core.ir import TensorType
from deployer.core.operator import Array
from deployer.quantization.options import Quantization
from deployer.quantization.quantize import ModelToQuantize
from deployer.quantization.report import QuantizedModel
from deployer.training.batches import fitted_samples
from DeployTest.quantization.nets import Net, by_reference, by_runtime, classifier, operators, written_arrays
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host]
EXACT = 30.0
"""Decibels that no output of a few layers falls below: noise of 3 % of the signal."""


def quantized(path: Path, x: Array, how: Quantization | None = None) -> tuple[Path, QuantizedModel]:
    """Quantize a file by these samples, beside it."""
    made = ModelToQuantize(path, how or Quantization())
    types: dict[str, TensorType] = made.inputs
    out = path.with_name("quantized.onnx")
    return out, made.write(fitted_samples({"x": x}, types), out)


def _residual() -> Net:
    net = Net((2, 8, 8))
    net.op("Relu", [net.conv("x", "first", 2, 6, bias=False)], "a")
    inner = net.conv(net.op("Relu", [net.conv("a", "second", 6, 6)], "b"), "third", 6, 6)
    net.op("Relu", [net.op("Add", [inner, "a"], "sum")], "c")
    net.op("GlobalAveragePool", ["c"], "d")
    net.op("Flatten", ["d"], "e")
    net.linear("e", "head", 6, 3)
    return net


def _mobile() -> Net:
    net = Net((3, 8, 8))
    net.constant("least", 0.0)
    net.constant("most", 6.0)
    net.op("Clip", [net.conv("x", "stem", 3, 8, strides=[2, 2]), "least", "most"], "a")
    net.op("Clip", [net.conv("a", "depth", 1, 8, group=8), "least", "most"], "b")
    net.op("Add", [net.conv("b", "point", 8, 8, side=1), "a"], "c")
    net.op("Concat", ["c", "a"], "d", axis=-3)
    net.op("GlobalAveragePool", ["d"], "e")
    net.op("Reshape", ["e", net.constant("rows", [0, -1], np.int64)], "f")
    net.linear("f", "head", 16, 3)
    return net


def _signal() -> Net:
    net = Net((3, 16))
    net.op("Relu", [net.norm(net.conv("x", "first", 3, 8, strides=[2]), "norm", 8)], "a")
    net.op("MaxPool", ["a"], "b", kernel_shape=[2], strides=[2])
    net.op("Flatten", [net.conv("b", "second", 8, 4, dilations=[2], pads=[2, 2])], "c")
    net.op("MatMul", ["c", net.weight("head.weight", 16, 3)], "h")
    net.op("Add", ["h", net.weight("head.bias", 3)], "y")
    return net


def _silu() -> Net:
    net = Net((2, 6, 6))
    first = net.conv("x", "first", 2, 4)
    net.op("Mul", [first, net.op("Sigmoid", [first], "gate")], "a")
    net.op("Tanh", [net.conv("a", "second", 4, 4)], "b")
    net.op("Transpose", ["b"], "c", perm=[0, 2, 3, 1])
    net.op("Flatten", ["c"], "d")
    net.linear("d", "head", 144, 3)
    return net


NETS: dict[str, tuple[Callable[[], Net], str]] = {
    "classifier": (classifier, "head.out"),
    "residual": (_residual, "head.out"),
    "mobile": (_mobile, "head.out"),
    "signal": (_signal, "y"),
    "silu": (_silu, "head.out"),
}


@pytest.mark.parametrize("how", [Quantization(), Quantization(per_channel=False), Quantization(method="percentile")])
@pytest.mark.parametrize("name", NETS)
def test_same_as_runtime(name: str, how: Quantization, tmp_path: Path) -> None:
    """The file is valid ONNX, its numbers are those of ONNX Runtime to the last bit, and close to the float model's."""
    made, output = NETS[name]
    net = made()
    path, x = net.save(tmp_path / "net.onnx", output), net.samples()
    out, result = quantized(path, x, how)
    onnx.checker.check_model(out, full_check=True)
    ours, theirs, floats = by_reference(out, x), by_runtime(out, x), by_runtime(path, x)
    np.testing.assert_array_equal(ours, theirs)
    noise = 10 * np.log10(np.square(floats, dtype=float).sum() / np.square(floats - ours, dtype=float).sum())
    assert_close("decibels", np.float32(noise), np.float32(result.output_snr_db[output]))
    assert noise > EXACT - 10 * (how.method == "percentile")


def test_integers_take_over(tmp_path: Path) -> None:
    """All that has an integer form is computed in it: floats come in and go out at the ends alone."""
    for name in ("classifier", "residual", "mobile", "signal"):
        made, output = NETS[name]
        net = made()
        out, result = quantized(net.save(tmp_path / f"{name}.onnx", output), net.samples())
        ops = operators(out)
        assert [sum(op.startswith(kind) for op in ops) for kind in ("Quantize", "Dequantize")] == [1, 1], (name, ops)
        assert not {op for op in ops if "Int8" not in op} - {"Reshape", "Transpose", "Squeeze", "Unsqueeze"}, ops
        assert not result.float_nodes
    net = _silu()
    net.op("Softmax", ["head.out"], "y", axis=1)
    out, result = quantized(net.save(tmp_path / "silu.onnx", "y"), net.samples())
    assert set(result.float_nodes) == {"a", "y"}
    assert {"Mul", "Softmax"} < set(operators(out))


def test_versions_and_weights(tmp_path: Path) -> None:
    """Opset, names and ends are the model's; weights are symmetric, one scale each channel or one for all."""
    net = classifier()
    path = net.save(tmp_path / "net.onnx", "head.out")
    for per_channel in (True, False):
        out, result = quantized(path, net.samples(), Quantization(per_channel=per_channel))
        model, arrays = onnx.load(out), written_arrays(out)
        assert [(o.domain, o.version) for o in model.opset_import] == [("", 17)]
        assert model.ir_version <= 10
        assert [v.name for v in model.graph.input] == ["x"]
        assert [v.name for v in model.graph.output] == ["head.out"]
        numbers, scales = arrays["head.weight/int8"], arrays["head.weight/scale"]
        assert (numbers.dtype.name, int(np.abs(numbers).max())) == ("int8", 127)
        assert scales.shape == ((3,) if per_channel else ())
        step = scales[:, None] if per_channel else scales
        assert np.abs(numbers * step - net.arrays["head.weight"]).max() <= 0.5001 * scales.max()
        assert arrays["head.bias/int32"].dtype == np.int32
        weights = sum(a.nbytes for name, a in arrays.items() if name.endswith(("/int8", "/int32")))
        channels = 6 + 8 + 3 if per_channel else 3
        assert result.bytes_after == weights + 4 * channels
        assert result.bytes_before == 4 * (2 * 6 * 9 + 6 + 6 * 8 * 9 + 8 + 32 * 3 + 3)


def test_several_outputs(tmp_path: Path) -> None:
    """A value that is an output and is read on has its name as an output, and its numbers are those of 8 bits."""
    net = classifier()
    out, result = quantized(net.save(tmp_path / "net.onnx", "head.out", "c", "features.3.out"), net.samples())
    assert [v.name for v in onnx.load(out).graph.output] == ["head.out", "c", "features.3.out"]
    assert set(result.output_snr_db) == {"head.out", "c", "features.3.out"}
    assert min(result.output_snr_db.values()) > EXACT
    np.testing.assert_array_equal(by_reference(out, net.samples()), by_runtime(out, net.samples()))


def test_layers_that_share_weights(tmp_path: Path) -> None:
    """Each of two layers has its own copy, and a bias in its own scale; what has been shared stays as it was."""
    net = Net((4, 6, 6))
    first = net.conv("x", "shared", 4, 4)
    net.op("Conv", [net.op("Relu", [first], "a"), "shared.weight", "shared.bias"], "y", pads=[1] * 4)
    out, _ = quantized(net.save(tmp_path / "net.onnx", "y"), net.samples())
    arrays = written_arrays(out)
    np.testing.assert_array_equal(arrays["shared.weight/int8"], arrays["shared.weight/int8_2"])
    assert not np.array_equal(arrays["shared.bias/int32"], arrays["shared.bias/int32_2"])
    np.testing.assert_array_equal(by_reference(out, net.samples()), by_runtime(out, net.samples()))


def test_constants_of_exporters(tmp_path: Path) -> None:
    """Weights in a Constant node, weights by another name, and calls of a function are seen as what they are."""
    net = Net((2, 6, 6))
    net.conv("x", "first", 2, 4)
    net.op("Relu", ["first.out"], "a")
    net.conv("a", "second", 4, 4)
    plain, _ = quantized(net.save(tmp_path / "net.onnx", "second.out"), net.samples())
    right = by_reference(plain, net.samples())
    model = net.model("second.out")
    weights = {t.name: t for t in model.graph.initializer}
    model.graph.initializer.remove(weights["first.weight"])
    held = onnx.helper.make_node("Constant", [], ["first.weight"], "held", value=weights["first.weight"])
    other = onnx.helper.make_node("Identity", ["second.weight"], ["again"], "other")
    rest = [*model.graph.node]
    rest[2].input[1] = "again"
    inner = onnx.helper.make_node("Relu", ["i"], ["o"], "inner")
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("local", 1)]
    model.functions.append(onnx.helper.make_function("local", "Block", ["i"], ["o"], [inner], opsets[:1]))
    rest[1] = onnx.helper.make_node("Block", ["first.out"], ["a"], "block", domain="local")
    del model.graph.node[:], model.opset_import[:]
    model.graph.node.extend([held, other, *rest])
    model.opset_import.extend(opsets)
    path = tmp_path / "exported.onnx"
    onnx.save(model, path)
    out, result = quantized(path, net.samples())
    assert [row.op for row in result.layers] == ["Conv", "Conv"]
    np.testing.assert_array_equal(by_reference(out, net.samples()), right)
    np.testing.assert_array_equal(by_runtime(out, net.samples()), right)


def test_channels_without_weights(tmp_path: Path) -> None:
    """A channel of zeros keeps its bias; one with tiny weights and a large bias has a scale that holds it."""
    net = Net((2, 6, 6))
    net.conv("x", "first", 2, 3)
    net.arrays["first.weight"][0] = 0
    net.arrays["first.weight"][1] *= np.float32(1e-12)
    net.arrays["first.bias"][:] = [0.75, -2.0, 0.5]
    out, _ = quantized(net.save(tmp_path / "net.onnx", "first.out"), net.samples())
    results = by_reference(out, net.samples())
    np.testing.assert_array_equal(results, by_runtime(out, net.samples()))
    assert np.abs(results[:, 0] - 0.75).max() < 0.02
    assert np.abs(results[:, 1] + 2).max() < 0.02


def test_open_batch(tmp_path: Path) -> None:
    """A file whose batch is open stays one, and is calibrated with the batch that is asked for."""
    from deployer.frontend.prepare import Axes

    net = classifier("N")
    path, x = net.save(tmp_path / "net.onnx", "head.out"), net.samples()
    made = ModelToQuantize(path, Quantization(), Axes(batch=5))
    other = tmp_path / "open.onnx"
    assert made.write(fitted_samples({"x": x}, made.inputs), other).samples == len(x)
    assert onnx.load(other).graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"
    fixed = classifier().save(tmp_path / "fixed.onnx", "head.out")
    out, _ = quantized(fixed, x)
    np.testing.assert_array_equal(by_runtime(other, x), by_runtime(out, x))
