"""Integer arithmetic of ONNX's operators over 8 bits in numpy, by their definitions, in the layout of the file."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper

from DeployTest.quantized.models import Array


def saturated(values: Array, zero: Array) -> Array:
    """Floats rounded half to even, moved by the zero, and clipped to its type."""
    info = np.iinfo(zero.dtype)
    return np.clip(np.rint(values) + int(zero), info.min, info.max).astype(zero.dtype)


def attributes(node: NodeProto) -> dict[str, object]:
    """The attributes of a node."""
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def windows(x: Array, kernel: list[int], attrs: dict[str, object], fill: int) -> tuple[Array, Array]:
    """The elements of each window [N, C, places.., taps..], and whether they lie in X."""
    axes = len(kernel)
    strides, dilations = (attrs.get(name, [1] * axes) for name in ("strides", "dilations"))
    pads = attrs.get("pads", [0] * 2 * axes)
    around = [(0, 0), (0, 0), *((pads[i], pads[axes + i]) for i in range(axes))]
    wide, inside = np.pad(x.astype(np.int64), around, constant_values=fill), np.pad(np.ones(x.shape, int), around)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    places = tuple(range(2, 2 + axes))
    steps = (
        slice(None),
        slice(None),
        *(slice(None, None, s) for s in strides),
        *(slice(None, None, d) for d in dilations),
    )
    found = (np.lib.stride_tricks.sliding_window_view(array, spans, places)[steps] for array in (wide, inside))
    return next(found), next(found)


def conv(
    node: NodeProto, x: Array, xs: Array, xz: Array, w: Array, ws: Array, wz: Array, ys: Array, yz: Array, *b: Array
) -> Array:
    """QLinearConv."""
    attrs = attributes(node)
    group, axes = int(attrs.get("group", 1)), w.ndim - 2
    taken, _ = windows(x, list(w.shape[2:]), attrs, int(xz))
    taken = taken - int(xz)
    filters = w.astype(np.int64) - wz.astype(np.int64).reshape(-1, *[1] * (w.ndim - 1))
    sums = []
    for m in range(w.shape[0]):
        first = m // (w.shape[0] // group) * w.shape[1]
        part = taken[:, first : first + w.shape[1]]
        own = filters[m].reshape(w.shape[1], *[1] * axes, *w.shape[2:])
        sums.append((part * own).sum((1, *range(2 + axes, 2 + 2 * axes))))
    total = np.stack(sums, 1)
    if b:
        total = total + b[0].astype(np.int64).reshape(-1, *[1] * axes)
    ratios = np.float32(np.float32(xs) * ws.astype(np.float32)) / np.float32(ys)
    return saturated(total.astype(np.float32) * ratios.reshape(-1, *[1] * axes).astype(np.float32), yz)


def product(
    x: Array, xs: Array, xz: Array, w: Array, ws: Array, wz: Array, ys: Array, yz: Array, b: Array | None
) -> Array:
    """A product of matrices [N, K] and [K, M]."""
    total = (x.astype(np.int64) - int(xz)) @ (w.astype(np.int64) - wz.astype(np.int64))
    ratios = np.float32(np.float32(xs) * ws.astype(np.float32)) / np.float32(ys)
    return saturated((total + (0 if b is None else b.astype(np.int64))).astype(np.float32) * ratios, yz)


def gemm(
    node: NodeProto,
    a: Array,
    xs: Array,
    xz: Array,
    b: Array,
    ws: Array,
    wz: Array,
    c: Array | None,
    ys: Array,
    yz: Array,
) -> Array:
    """QGemm of ONNX Runtime; without a bias `c` is None."""
    return product(a, xs, xz, b.T if attributes(node).get("transB", 0) else b, ws, wz, ys, yz, c)


def add(
    node: NodeProto, a: Array, a_s: Array, az: Array, b: Array, bs: Array, bz: Array, ys: Array, yz: Array
) -> Array:
    """QLinearAdd of ONNX Runtime: two terms in float32."""
    terms = [
        (x.astype(np.int64) - int(zero)).astype(np.float32) * np.float32(np.float32(scale) / np.float32(ys))
        for x, scale, zero in ((a, a_s, az), (b, bs, bz))
    ]
    return saturated(terms[0] + terms[1], yz)


def mean(node: NodeProto, x: Array, xs: Array, xz: Array, ys: Array, yz: Array) -> Array:
    """QLinearGlobalAveragePool of ONNX Runtime."""
    axes = tuple(range(2, x.ndim))
    count = np.float32(np.prod(x.shape[2:]))
    total = (x.astype(np.int64) - int(xz)).sum(axes, keepdims=True)
    return saturated(total.astype(np.float32) * (np.float32(xs) / (np.float32(ys) * count)), yz)


def average(node: NodeProto, x: Array, xs: Array, xz: Array, ys: Array, yz: Array) -> Array:
    """QLinearAveragePool of ONNX Runtime."""
    attrs = attributes(node)
    kernel = list(attrs["kernel_shape"])
    taken, inside = windows(x, kernel, attrs, int(xz))
    taps = tuple(range(taken.ndim - len(kernel), taken.ndim))
    counts = (
        inside.sum(taps)
        if not attrs.get("count_include_pad", 0)
        else np.full(inside.shape[: -len(kernel)], np.prod(kernel))
    )
    ratios = np.float32(xs) / (np.float32(ys) * counts.astype(np.float32))
    return saturated((taken - int(xz)).sum(taps).astype(np.float32) * ratios, yz)


def largest(node: NodeProto, x: Array) -> Array:
    """MaxPool of numbers of 8 bits."""
    attrs = attributes(node)
    kernel = list(attrs["kernel_shape"])
    taken, _ = windows(x, kernel, attrs, int(np.iinfo(x.dtype).min))
    return taken.max(tuple(range(taken.ndim - len(kernel), taken.ndim))).astype(x.dtype)


def concat(node: NodeProto, ys: Array, yz: Array, *rest: Array) -> Array:
    """QLinearConcat of ONNX Runtime: each operand by way of floats."""
    parts = [
        saturated((x.astype(np.float32) - np.float32(zero)) * np.float32(scale) / np.float32(ys), yz)
        for x, scale, zero in zip(rest[::3], rest[1::3], rest[2::3], strict=True)
    ]
    return np.concatenate(parts, int(attributes(node)["axis"]))


def function(of: Callable[[Array, dict[str, object]], Array]) -> Callable[..., Array]:
    """A function of one number."""

    def run(node: NodeProto, x: Array, xs: Array, xz: Array, ys: Array, yz: Array) -> Array:
        floats = (x.astype(np.float32) - np.float32(xz)) * np.float32(xs)
        return saturated(of(floats, attributes(node)).astype(np.float32) / np.float32(ys), yz)

    return run


OPERATORS: dict[str, Callable[..., Array]] = {
    "QuantizeLinear": lambda node, x, s, z: saturated(x.astype(np.float32) / np.float32(s), z),
    "DequantizeLinear": lambda node, x, s, z: (x.astype(np.int64) - z.astype(np.int64)).astype(np.float32) * s,
    "QLinearConv": conv,
    "QLinearMatMul": lambda node, *operands: product(*operands, None),
    "QGemm": gemm,
    "QLinearAdd": add,
    "QLinearGlobalAveragePool": mean,
    "QLinearAveragePool": average,
    "QLinearConcat": concat,
    "QLinearSigmoid": function(lambda x, attrs: 1 / (1 + np.exp(-x.astype(np.float64)))),
    "QLinearLeakyRelu": function(lambda x, attrs: np.where(x > 0, x, x * np.float32(attrs.get("alpha", 0.01)))),
    "QLinearRelu": function(lambda x, attrs: np.maximum(x, 0)),
    "QLinearHardSwish": function(lambda x, attrs: x * np.clip(x * np.float32(1 / 6) + np.float32(0.5), 0, 1)),
    "QLinearClip": function(lambda x, attrs: np.clip(x, np.float32(attrs["low"]), np.float32(attrs["high"]))),
    "QLinearRequantize": function(lambda x, attrs: x),
    "Clip": lambda node, x, low, high: np.clip(x, low, high),
    "MaxPool": largest,
    "Flatten": lambda node, x: x.reshape(x.shape[0], -1),
    "Reshape": lambda node, x, shape: x.reshape([n or m for n, m in zip(shape, x.shape, strict=False)]),
    "HardSwish": lambda node, x: x * np.clip(x * np.float32(1 / 6) + np.float32(0.5), 0, 1),
    "Tanh": lambda node, x: np.tanh(x.astype(np.float64)).astype(np.float32),
}


def run(path: Path, x: Array) -> Array:
    """The output of a model over 8 bits for one input."""
    graph = onnx.load(path).graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    return values_of(graph.node, constants | {"x": x})[graph.output[0].name]


def values_of(nodes: Iterable[NodeProto], given: Mapping[str, Array]) -> dict[str, Array]:
    """All values that nodes over 8 bits compute from given ones."""
    values = dict(given)
    for node in nodes:
        values[node.output[0]] = result_of(node, values)
    return values


def result_of(node: NodeProto, values: Mapping[str, Array]) -> Array:
    """The result of one node from these values."""
    names = node.input if node.op_type == "QGemm" else filter(None, node.input)
    operands = [values[name] if name else None for name in names]
    single = [x.reshape(()) if x is not None and x.shape == (1,) else x for x in operands]
    return OPERATORS[node.op_type](node, *single)
