"""Quantized files, drawn: layers of 8 bits with scales of their own, in either format, and a head of floats behind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod, sqrt
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from DeployTest.faults.fuzz.draw import Draw
from DeployTest.quantized.models import Array

TYPES = (np.int8, np.uint8)
RUNTIME = {"QGemm", "QLinearAdd", "QLinearConcat", "QLinearAveragePool", "QLinearGlobalAveragePool"}
RUNTIME |= {"QLinearSigmoid", "QLinearLeakyRelu"}
"""Operators of 8 bits that ONNX Runtime has beside those of ONNX."""
FUNCTIONS: dict[str, dict[str, float]] = {"Relu": {}, "LeakyRelu": {"alpha": 0.1}, "Sigmoid": {}, "HardSwish": {}}
SPREAD = 45.0
"""About the standard deviation of the numbers of a value."""
LARGEST = 1600
"""Elements of a value."""


@dataclass(frozen=True)
class Value:
    """A value of 8 bits: its name, its shape, and the names and numbers of its scale and zero."""

    name: str
    shape: tuple[int, ...]
    scale: np.float32
    zero: Array
    names: tuple[str, str]

    @property
    def axes(self) -> int:
        """Its spatial axes."""
        return len(self.shape) - 2


@dataclass
class DrawnNet:
    """A net under construction, as a file of its format and as a list of operators of 8 bits, its meaning.

    In the format QDQ the file has operators of floats between DequantizeLinear and QuantizeLinear, and `meaning` the
    operators over 8 bits that stand for them, of which some are none of ONNX. The other format has the same of both.
    """

    draw: Draw
    qdq: bool
    nodes: list[NodeProto] = field(default_factory=list)
    meaning: list[NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    values: list[Value] = field(default_factory=list)
    floats: dict[str, str] = field(default_factory=dict)
    feed: Array = field(init=False)
    given: bool = False

    # Names, constants and nodes.

    def constant(self, array: Any) -> str:
        """A new constant's name."""
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def node(self, op: str, inputs: Sequence[str], output: str, **attrs: Any) -> str:
        """Append a node of the file."""
        domain = "com.microsoft" if op in RUNTIME else ""
        self.nodes.append(helper.make_node(op, inputs, [output], f"n{len(self.nodes)}", domain=domain, **attrs))
        return output

    def means(self, op: str, inputs: Sequence[str], output: str, **attrs: Any) -> None:
        """Append a node of the meaning."""
        self.meaning.append(helper.make_node(op, inputs, [output], **attrs))

    def fresh(self) -> str:
        """A name for a tensor."""
        return f"v{len(self.nodes)}"

    # Quantizers.

    def scaled(
        self, shape: Sequence[int], size: float, low: bool = False, like: Value | None = None, name: str = ""
    ) -> Value:
        """A value whose floats are about of that standard deviation; its zero is the least number if `low`.

        It has the type of `like` in the format of ONNX Runtime's own operators, which take one type alone.
        """
        factor = self.draw.one((0.6, 0.9, 1.0, 1.2, 1.6, 3.0))
        scale = np.float32(size / SPREAD * factor)
        if self.draw.chance(0.25):  # where sums are often ties between two numbers
            scale = np.float32(2.0 ** np.round(np.log2(scale)))
        kind = np.iinfo(self.draw.one(TYPES) if like is None or self.qdq else like.zero.dtype)
        middle = (kind.min + kind.max + 1) // 2
        least, most = int(kind.min), int(kind.max)
        near = self.draw.number(least // 2 + middle // 2, most // 2 + middle // 2)
        zero = least if low else self.draw.one((middle, middle, middle, near, near, self.draw.number(least, most)))
        zeros = np.asarray(zero, kind.dtype)
        names = self.one_number(scale), self.one_number(zeros)
        return Value(name or f"y{len(self.values)}", tuple(shape), scale, zeros, names)

    def same(self, x: Value, name: str, shape: Sequence[int]) -> Value:
        """A value with the scale and zero of another one."""
        return Value(name, tuple(shape), x.scale, x.zero, x.names)

    def one_number(self, number: Any) -> str:
        """A constant of one number, which files of QDQ have with one axis or without."""
        array = np.asarray(number)
        return self.constant(array.reshape(1) if self.qdq and self.draw.chance(0.2) else array)

    def zero_input(self, x: Value, reads: bool) -> list[str]:
        """The zero as an input; it may be absent where it is 0, and the type is known or the default."""
        optional = int(x.zero) == 0 and (reads or x.zero.dtype == np.uint8)
        return [] if optional and self.draw.chance(0.3) else [x.names[1]]

    # Borders of QDQ.

    def float_of(self, x: Value) -> str:
        """The floats of a value, by a DequantizeLinear of its own or by one that others read."""
        if x.name not in self.floats or self.draw.chance(0.5):
            made = self.node("DequantizeLinear", [x.name, x.names[0], *self.zero_input(x, True)], self.fresh())
            self.floats[x.name] = made
        return self.floats[x.name]

    def quantized(self, source: str, y: Value) -> None:
        """Quantize floats of the file."""
        self.node("QuantizeLinear", [source, y.names[0], *self.zero_input(y, False)], y.name)

    def begin(self) -> None:
        """The input: images, a signal or rows; floats, or numbers of 8 bits."""
        batch = self.draw.one((1, 1, 2, 3))
        axes = self.draw.one((0, 1, 2, 2, 2))
        inner = (
            [self.draw.number(4, 9) for _ in range(axes)] if axes < 2 else [self.draw.number(3, 7) for _ in range(2)]
        )
        shape = (batch, self.draw.number(1, 5) if axes else self.draw.number(3, 17), *inner)
        self.given = self.draw.chance(0.25)
        x = self.scaled(shape, 1.0, name="x" if self.given else "q")
        if self.given:
            numbers = self.draw.array(shape) * np.float32(SPREAD) + np.float32(x.zero)
            info = np.iinfo(x.zero.dtype)
            self.feed = np.clip(np.rint(numbers), info.min, info.max).astype(x.zero.dtype)
        else:
            self.feed = self.draw.array(shape)
            self.quantized("x", x)
            self.means("QuantizeLinear", ["x", *x.names], x.name)
        self.values.append(x)

    # Operators.

    def weights(self, shape: Sequence[int], axis: int, count: int) -> tuple[list[str], np.ndarray, str]:
        """Weights with a scale and zero for all, or for each index of an axis: names, scales, and the file's floats."""
        kind = np.iinfo(self.draw.one(TYPES))
        each = count if self.draw.chance(0.6) else 1
        middle = (int(kind.min) + int(kind.max) + 1) // 2
        zeros: Array = np.full(each, middle)
        if self.draw.chance(0.3):
            zeros = zeros + self.draw.number(-20, 20)
        if each > 1 and self.draw.chance(0.1):
            zeros = zeros + [self.draw.number(-10, 10) for _ in range(each)]
        numbers = np.clip(np.rint(self.draw.array(shape) * 32), -97, 97).astype(np.int64) + middle
        scales = np.abs(self.draw.array([each])) * np.float32(0.004) + np.float32(0.001)
        if each == 1 and self.draw.chance(0.5):
            scales, zeros = scales.reshape(()), zeros.reshape(())
        weights, zeros = numbers.astype(kind.dtype), zeros.astype(kind.dtype)
        names = [self.constant(weights), self.constant(scales.astype(np.float32)), self.constant(zeros)]
        return names, scales.astype(np.float32), self._weight_floats(names, axis, each) if self.qdq else ""

    def _weight_floats(self, names: list[str], axis: int, each: int) -> str:
        """A DequantizeLinear of weights, or of what a QuantizeLinear makes of floats."""
        weights, scales, zeros = (self.constants[name] for name in names)
        rank = weights.ndim
        attrs = (
            {} if each == 1 or (axis == 1 and self.draw.chance(0.3)) else {"axis": self.draw.one((axis, axis - rank))}
        )
        optional = not zeros.any() and self.draw.chance(0.3)
        source = names[0]
        if self.draw.chance(0.2) and not (optional and weights.dtype == np.int8):
            along = [-1 if i == axis else 1 for i in range(rank)] if each > 1 else [1] * rank
            floats = (weights.astype(np.int64) - zeros.astype(np.int64).reshape(along)) * scales.reshape(along)
            name = self.constant(floats.astype(np.float32))
            source = self.node(
                "QuantizeLinear", [name, names[1], *([] if optional else [names[2]])], self.fresh(), **attrs
            )
        inputs = [source, names[1], *([] if optional else [names[2]])]
        return self.node("DequantizeLinear", inputs, self.fresh(), **attrs)

    def bias(self, x: Value, scales: np.ndarray, count: int, taps: int) -> tuple[list[str], str]:
        """A bias of 32 bits, or none, and its name as floats of the file."""
        if self.draw.chance(0.25):
            return [], ""
        numbers = np.rint(self.draw.array([count]) * np.float32(SPREAD * 32 * sqrt(taps))).astype(np.int32)
        name = self.constant(numbers)
        if not self.qdq:
            return [name], ""
        steps = (x.scale * scales).astype(np.float32)
        if self.draw.chance(0.3):
            return [name], self.constant((numbers * np.broadcast_to(steps.reshape(-1), [count])).astype(np.float32))
        zero = [] if self.draw.chance(0.5) else [self.constant(np.zeros(steps.shape, np.int32))]
        attrs = {"axis": 0} if steps.size > 1 else {}
        return [name], self.node("DequantizeLinear", [name, self.constant(steps), *zero], self.fresh(), **attrs)

    def finish(self, op: str, inputs: list[str], y: Value, size: float, **attrs: Any) -> Value:
        """An operator of floats whose result is quantized, maybe behind a Relu or a Clip; returns what it became."""
        made = self.node(op, inputs, self.fresh(), **attrs)
        choice = self.draw.number(0, 3)
        if choice == 0:
            made = self.node("Relu", [made], self.fresh())
            self._limited(y, 0.0, np.inf)
        elif choice == 1:
            limits = np.sort(np.array([self.draw.one((0.0, -size)), self.draw.one((size, size / 2))], np.float32))
            made = self.node("Clip", [made, *map(self.constant, limits)], self.fresh())
            self._limited(y, *limits)
        self.quantized(made, y)
        self.values.append(y)
        return y

    def _limited(self, y: Value, low: float, high: float) -> None:
        """Clip the numbers of the last operator of the meaning between those of two floats."""
        info, inner = np.iinfo(y.zero.dtype), f"{y.name}/wide"
        self.meaning[-1].output[0] = inner
        with np.errstate(over="ignore"):
            ends = [np.clip(np.rint(np.float32(f) / y.scale) + int(y.zero), info.min, info.max) for f in (low, high)]
        self.means("Clip", [inner, *(self.constant(end.astype(y.zero.dtype)) for end in ends)], y.name)

    def sums(
        self, op: str, x: Value, w: list[str], wf: str, b: list[str], bf: str, y: Value, size: float, **attrs: Any
    ) -> None:
        """A convolution or a product in both forms; `op` is that of floats."""
        eight = {"Conv": "QLinearConv", "Gemm": "QGemm", "MatMul": "QLinearMatMul"}[op]
        inputs = [x.name, *x.names, *w]
        inputs += [*(b or [""]), *y.names] if op == "Gemm" else [*y.names, *b]
        self.means(eight, inputs, y.name, **attrs)
        if self.qdq:
            self.finish(op, [self.float_of(x), wf, *([bf] if bf else [])], y, size, **attrs)
        else:
            self.node(eight, inputs, y.name, **attrs)
            self.values.append(y)

    def conv(self, x: Value) -> None:
        """A convolution: dense, grouped, depthwise, pointwise or dilated, with a stride or without."""
        axes, channels = x.axes, x.shape[1]
        kind = self.draw.one(("dense", "depthwise", "pointwise", "grouped"))
        filters, group = self.draw.number(2, 9), 1
        if kind == "depthwise":
            group, filters = channels, channels * self.draw.one((1, 1, 1, 2))
        elif kind == "grouped":
            group = self.draw.one([g for g in range(1, channels + 1) if channels % g == 0])
            filters = group * self.draw.number(1, 3)
        side = [1] * axes if kind == "pointwise" else [self.draw.number(1, 3) for _ in range(axes)]
        strides = [self.draw.one((1, 1, 2)) for _ in range(axes)]
        dilations = [self.draw.one((1, 1, 1, 2)) for _ in range(axes)]
        pads = [self.draw.number(0, 2) for _ in range(2 * axes)]
        attrs: dict[str, Any] = {"kernel_shape": side} if self.draw.chance(0.7) else {}
        attrs |= {"group": group, "strides": strides, "dilations": dilations, "pads": pads}
        shape = _windows(x.shape[2:], side, strides, dilations, pads)
        if min(shape) < 1 or prod(shape) * filters * x.shape[0] > LARGEST:
            return
        taps = channels // group * prod(side)
        w, scales, wf = self.weights((filters, channels // group, *side), 0, filters)
        b, bf = self.bias(x, scales, filters, taps)
        size = float(x.scale * scales.mean()) * SPREAD * 32 * sqrt(taps)
        y = self.scaled((x.shape[0], filters, *shape), size, self.draw.chance(0.3))
        self.sums("Conv", x, w, wf, b, bf, y, size, **attrs)

    def product(self, x: Value) -> None:
        """A product of rows with a matrix; images are flattened before."""
        if x.axes:
            x = self.flatten(x)
        inner, outer = x.shape[1], self.draw.number(2, 17)
        op = self.draw.one(("Gemm", "Gemm", "MatMul"))
        turned = op == "Gemm" and self.draw.chance(0.7)
        w, scales, wf = self.weights((outer, inner) if turned else (inner, outer), 0 if turned else 1, outer)
        b, bf = self.bias(x, scales, outer, inner) if op == "Gemm" else ([], "")
        size = float(x.scale * scales.mean()) * SPREAD * 32 * sqrt(inner)
        y = self.scaled((x.shape[0], outer), size, self.draw.chance(0.3))
        attrs = {"transB": 1} if turned else {}
        self.sums(op, x, w, wf, b, bf, y, size, **attrs)

    def flatten(self, x: Value) -> Value:
        """Rows of images."""
        y = self.same(x, f"y{len(self.values)}", (x.shape[0], prod(x.shape[1:])))
        self.moved("Flatten", x, y)
        return y

    def moved(self, op: str, x: Value, y: Value, **attrs: Any) -> None:
        """An operator that keeps numbers and their scale."""
        self.means(op, [x.name], y.name, **attrs)
        if self.qdq:
            self.quantized(self.node(op, [self.float_of(x)], self.fresh(), **attrs), y)
        else:
            self.node(op, [x.name], y.name, **attrs)
        self.values.append(y)

    def pool(self, x: Value) -> None:
        """The largest number or the mean of windows, or the mean of images."""
        axes = x.axes
        if self.draw.chance(0.25):
            y = self.scaled((*x.shape[:2], *[1] * axes), float(x.scale) * SPREAD / 2, like=x)
            self.means("QLinearGlobalAveragePool", [x.name, *x.names, *y.names], y.name)
            if self.qdq and self.draw.chance(0.5):
                self._mean(x, y)
            else:
                self._emit("GlobalAveragePool", [x], y, {}, {})
            return
        side = [self.draw.number(1, 3) for _ in range(axes)]
        strides = [self.draw.one((1, 2)) for _ in range(axes)]
        pads = [self.draw.number(0, k - 1) for k in side + side]
        shape = _windows(x.shape[2:], side, strides, [1] * axes, pads)
        if min(shape) < 1:
            return
        attrs: dict[str, Any] = {"kernel_shape": side, "strides": strides, "pads": pads}
        if self.draw.chance(0.5):
            self.moved("MaxPool", x, self.same(x, f"y{len(self.values)}", (*x.shape[:2], *shape)), **attrs)
            return
        attrs["count_include_pad"] = self.draw.number(0, 1)
        y = self.scaled((*x.shape[:2], *shape), float(x.scale) * SPREAD * 0.7, like=x)
        self.means("QLinearAveragePool", [x.name, *x.names, *y.names], y.name, **attrs)
        self._emit("AveragePool", [x], y, attrs, attrs)

    def _mean(self, x: Value, y: Value) -> None:
        """The mean of images as a ReduceMean, which may leave the spatial axes out."""
        axes, keeps = [self.draw.one((i, i - x.axes - 2)) for i in range(2, x.axes + 2)], self.draw.number(0, 1)
        if not keeps:
            self.meaning[-1].output[0] = f"{y.name}/images"
            self.means("Flatten", [f"{y.name}/images"], y.name)
            y = self.same(y, y.name, y.shape[:2])
        self.quantized(self.node("ReduceMean", [self.float_of(x)], self.fresh(), axes=axes, keepdims=keeps), y)
        self.values.append(y)

    def _emit(self, op: str, xs: list[Value], y: Value, floats: Mapping[str, Any], eight: Mapping[str, Any]) -> None:
        """The last operator of the meaning in the file."""
        if self.qdq:
            self.finish(op, [self.float_of(x) for x in xs], y, float(y.scale) * SPREAD, **floats)
        else:
            self.node(self.meaning[-1].op_type, list(self.meaning[-1].input), y.name, **eight)
            self.values.append(y)

    def add(self, x: Value) -> None:
        """The sum with another value of that shape, or with itself."""
        other = self.draw.one([v for v in self.values if v.shape == x.shape and self.may_join(v, x)])
        y = self.scaled(x.shape, float(x.scale + other.scale) * SPREAD * 0.8, like=x)
        pair = [x, other] if self.draw.chance(0.5) else [other, x]
        self.means("QLinearAdd", [n for v in pair for n in (v.name, *v.names)] + [*y.names], y.name)
        self._emit("Add", pair, y, {}, {})

    def may_join(self, a: Value, b: Value) -> bool:
        """Whether one operator may read both values: QLinear operators need both as int8 or both as uint8."""
        return self.qdq or a.zero.dtype == b.zero.dtype

    def concat(self, x: Value) -> None:
        """Values one behind the other, along the channels or a spatial axis."""
        axis = self.draw.number(1, len(x.shape) - 1)
        same = [v for v in self.values if _without(v.shape, axis) == _without(x.shape, axis) and self.may_join(v, x)]
        parts = [x, *(self.draw.one(same) for _ in range(self.draw.number(1, 2)))]
        shape = list(x.shape)
        shape[axis] = sum(v.shape[axis] for v in parts)
        if prod(shape) > LARGEST:
            return
        y = self.scaled(shape, float(max(v.scale for v in parts)) * SPREAD, like=x)
        self.means("QLinearConcat", [*y.names, *(n for v in parts for n in (v.name, *v.names))], y.name, axis=axis)
        said = {"axis": self.draw.one((axis, axis - len(shape)))}
        self._emit("Concat", parts, y, said, said)

    def function(self, x: Value) -> None:
        """A function of one number, or another scale alone."""
        names = [*FUNCTIONS, "Clip", "Requantize"] if self.qdq else ["Sigmoid", "LeakyRelu"]
        op = self.draw.one(names)
        size = 0.4 if op == "Sigmoid" else float(x.scale) * SPREAD * 0.8
        y = self.scaled(x.shape, size, like=x)
        attrs: dict[str, Any] = dict(FUNCTIONS.get(op, {}))
        more = [np.float32(0), np.float32(size)] if op == "Clip" else []
        limits = {"low": more[0], "high": more[1]} if more else {}
        self.means(f"QLinear{op}", [x.name, *x.names, *y.names], y.name, **attrs, **limits)
        if not self.qdq:
            self.node(f"QLinear{op}", [x.name, *x.names, *y.names], y.name, **attrs)
        elif op == "Requantize":
            self.quantized(self.float_of(x), y)
        else:
            self.quantized(self.node(op, [self.float_of(x), *map(self.constant, more)], self.fresh(), **attrs), y)
        self.values.append(y)

    def layer(self) -> None:
        """A drawn layer behind the newest value, seldom behind another one."""
        x = self.values[-1] if self.draw.chance(0.8) else self.draw.one(self.values)
        if x.axes:
            choices = (self.conv, self.conv, self.conv, self.conv, self.pool, self.pool)
            self.draw.one((*choices, self.add, self.concat, self.function, self.product))(x)
        else:
            self.draw.one((self.product, self.product, self.product, self.add, self.concat, self.function))(x)

    def end(self) -> None:
        """The floats of the last value, and a head of floats behind them, both outputs."""
        last = self.values[-1]
        self.node("DequantizeLinear", [last.name, *last.names], "y")
        self.means("DequantizeLinear", [last.name, *last.names], "y")
        rows = "y" if not last.axes else self.node("Flatten", ["y"], self.fresh())
        width = prod(last.shape[1:])
        self.constants["head.weight"] = self.draw.array((3, width)) * np.float32(1 / sqrt(width))
        self.constants["head.bias"] = self.draw.array([3])
        self.node("Gemm", [rows, "head.weight", "head.bias"], "logits", transB=1)

    # Files.

    @cached_property
    def latent(self) -> tuple[int, ...]:
        """The shape of the floats in front of the head."""
        return self.values[-1].shape

    def model(self, seen: bool = False) -> onnx.ModelProto:
        """The file; `seen`: its values of 8 bits are outputs as well."""
        declared = [v for v in self.values[1:] if self.draw.chance(0.5)]
        more = [v for v in self.values if v.name != "x"] if seen else []
        ends = [("y", self.latent), ("logits", (self.latent[0], 3))]
        outputs: list[tuple[str, int, tuple[int, ...]]] = [(name, TensorProto.FLOAT, shape) for name, shape in ends]
        outputs = outputs if not seen else [(v.name, _element(v), v.shape) for v in more]
        kind = helper.np_dtype_to_tensor_dtype(self.feed.dtype)
        graph = helper.make_graph(
            self.nodes,
            "drawn",
            [helper.make_tensor_value_info("x", kind, self.feed.shape)],
            [helper.make_tensor_value_info(*output) for output in outputs],
            self.initializers(self.nodes),
            value_info=[helper.make_tensor_value_info(v.name, _element(v), v.shape) for v in declared if v not in more],
        )
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10, producer_name="drawn")

    def initializers(self, nodes: Sequence[NodeProto]) -> list[TensorProto]:
        """The constants that nodes read."""
        read = {name for node in nodes for name in node.input}
        return [numpy_helper.from_array(array, name) for name, array in self.constants.items() if name in read]


def _element(x: Value) -> int:
    return helper.np_dtype_to_tensor_dtype(x.zero.dtype)


def _windows(
    sizes: Sequence[int], side: Sequence[int], strides: Sequence[int], dilations: Sequence[int], pads: Sequence[int]
) -> list[int]:
    """The number of windows along each axis."""
    axes = len(side)
    return [
        (sizes[i] + pads[i] + pads[axes + i] - (side[i] - 1) * dilations[i] - 1) // strides[i] + 1 for i in range(axes)
    ]


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :] if axis < len(shape) else ()


def drawn(draw: Draw) -> DrawnNet:
    """A net of one to six layers in a drawn format."""
    net = DrawnNet(draw, draw.chance(0.6))
    net.begin()
    wanted = draw.number(1, 6)
    while len(net.values) <= wanted:
        net.layer()
    net.end()
    return net
