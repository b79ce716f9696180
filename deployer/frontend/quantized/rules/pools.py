"""Pools: means and largest numbers of windows, and means of whole images."""

from collections.abc import Sequence
from dataclasses import dataclass

from onnx import NodeProto

from deployer.frontend.quantized.packing import Packer, Result, qdq_rule, qoperator_rule
from deployer.frontend.quantized.results import (
    clipped,
    flattened,
    full_range,
    record,
    result_attributes,
    window_attributes,
    windows_fault,
)
from deployer.frontend.quantized.values import OFFSET, QuantizedValue, plain_node, refused

Attributes = dict[str, int | float | Sequence[int]]


@dataclass(frozen=True)
class IntegerPool:
    """Pool over windows, or over whole images if `is_global`: the mean of each, or its largest number."""

    is_mean: bool
    is_global: bool = False

    def axes(self, packer: Packer, node: NodeProto, x: QuantizedValue) -> int:
        """Number of spatial axes."""
        kernel = plain_node(node).attrs.get("kernel_shape")
        return len(kernel) if isinstance(kernel, tuple) else (packer.rank_of(node.input[0], x) or 4) - 2

    def has_integers(self, packer: Packer, node: NodeProto, x: QuantizedValue) -> bool:
        """Whether it can be computed in integers."""
        fault = "" if self.is_global else windows_fault(node)
        return not fault and len(node.output) == 1 and x.images is None and self.axes(packer, node, x) in (1, 2)

    def emit(self, packer: Packer, node: NodeProto, x: QuantizedValue, result: Result) -> QuantizedValue:
        """Emit the pool; returns its value. UnsupportedOperator for a pool without integer form."""
        axes = self.axes(packer, node, x)
        if not self.has_integers(packer, node, x):
            fault = windows_fault(node) or f"it pools over {axes} axes"
            raise refused(node, fault, "explicit pads over one or two axes")
        attrs: Attributes = {}
        if not self.is_global:
            sides = plain_node(node).attr_ints("kernel_shape", ())
            attrs |= {**window_attributes(node, axes), "kernel_shape": sides if axes == 2 else (1, *sides)}
        if self.is_mean:
            scales = {"x_scale": float(x.quantizer.scale), "y_scale": float(result.quantizer.scale)}
            attrs |= {**result_attributes(result), **scales, "x_zero": x.quantizer.zero}
            if not self.is_global:
                attrs["count_include_pad"] = plain_node(node).attr_int("count_include_pad", 0)
        op = "Int8GlobalAveragePool" if self.is_global else "Int8AveragePool" if self.is_mean else "Int8MaxPool"
        tensor = packer.emit(op, [packer.tensor_of(x, axes)], packer.fresh(f"{result.name}/int8"), attrs)
        return record(packer, result, axes, tensor, x.channels)


def average(packer: Packer, node: NodeProto, pool: IntegerPool) -> bool:
    """Compute a mean in integers."""
    x = packer.dequantized.get(node.input[0])
    if x is None or not pool.has_integers(packer, node, x):
        return False
    result = packer.following_quantizer(node.output[0])
    if result is not None:
        pool.emit(packer, node, x, result)
    return result is not None


@qdq_rule("AveragePool")
def average_pool(packer: Packer, node: NodeProto) -> bool:
    """Compute means of windows in integers."""
    return average(packer, node, IntegerPool(is_mean=True))


@qdq_rule("GlobalAveragePool")
def global_average_pool(packer: Packer, node: NodeProto) -> bool:
    """Compute means of images in integers."""
    return average(packer, node, IntegerPool(is_mean=True, is_global=True))


@qdq_rule("ReduceMean")
def mean_of_images(packer: Packer, node: NodeProto) -> bool:
    """Compute a mean over all spatial axes, which is a pool, in integers; without these axes the results are rows."""
    x, attrs = packer.dequantized.get(node.input[0]), plain_node(node).attrs
    rank, keeps = (0 if x is None else packer.rank_of(node.input[0], x)), attrs.get("keepdims", 1)
    given = attrs.get("axes", packer.integers(node, 1))
    axes = sorted(axis % rank for axis in given) if rank and isinstance(given, tuple) else []
    pool = IntegerPool(is_mean=True, is_global=True)
    if x is None or axes != [*range(2, rank)] or not (keeps or x.channels) or not pool.has_integers(packer, node, x):
        return False
    result = packer.following_quantizer(node.output[0])
    if result is None:
        return False
    pooled = pool.emit(packer, node, x, result)
    if not keeps:
        flattened(packer, pooled, result.name)
    return True


@qdq_rule("MaxPool")
def max_pool(packer: Packer, node: NodeProto) -> bool:
    """Compute the largest numbers of windows in integers, between borders or of an 8-bit tensor as it is."""
    x, pool = packer.value(node.input[0]), IntegerPool(is_mean=False)
    if node.input[0] in packer.quantized and x is not None:
        pool.emit(packer, node, x, full_range(x.quantizer, node.output[0]))
        return True
    if x is None or not pool.has_integers(packer, node, x):
        return False
    result = packer.following_quantizer(node.output[0])
    if result is None:
        return False
    largest = pool.emit(packer, node, x, full_range(x.quantizer, result.name))
    if result[:3] != (x.quantizer, -OFFSET, OFFSET - 1):
        packer.quantized[result.name] = packer.lookup(
            largest, result.quantizer, lambda floats: clipped(result, floats), result.name
        )
    return True


def linear_average(packer: Packer, node: NodeProto, pool: IntegerPool) -> None:
    """Compute a mean of 8 bits: inputs x, its scale and zero, and the result's scale and zero."""
    if plain_node(node).attrs.get("channels_last", 0):
        raise refused(node, "channels_last is 1", "channels_last 0")
    result = full_range(packer.quantizer(node, 3), node.output[0])
    pool.emit(packer, node, packer.operand(node, 0), result)


@qoperator_rule("QLinearAveragePool")
def linear_average_pool(packer: Packer, node: NodeProto) -> None:
    """Compute means of windows."""
    linear_average(packer, node, IntegerPool(is_mean=True))


@qoperator_rule("QLinearGlobalAveragePool")
def linear_global_average_pool(packer: Packer, node: NodeProto) -> None:
    """Compute means of images."""
    linear_average(packer, node, IntegerPool(is_mean=True, is_global=True))
