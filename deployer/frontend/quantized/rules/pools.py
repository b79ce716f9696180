"""Pools: means and largest numbers of windows, or of whole images."""

from collections.abc import Callable, Sequence

from onnx import NodeProto

from deployer.frontend.quantized.packing import Packer, Rule, between_borders, over_eights
from deployer.frontend.quantized.results import (
    Result,
    clipped,
    frame,
    keep,
    operand,
    spatial,
    whole,
)
from deployer.frontend.quantized.values import (
    SHIFT,
    Codes,
    plain_node,
    refused,
)


def pool(packer: Packer, node: NodeProto, x: Codes, result: Result, mean: bool, everything: bool) -> bool:
    """The mean or the largest of windows, or of whole images."""
    attrs = plain_node(node).attrs
    kernel = attrs.get("kernel_shape", ())
    axes = len(kernel) if isinstance(kernel, tuple) and kernel else x.images or packer.rank(node.input[0], 4) - 2
    if axes not in (1, 2):
        raise refused(node, f"it pools over {axes} axes", "one or two")
    scales = {"x_scale": float(x.quantizer.scale), "y_scale": float(result[0].scale), "x_zero": x.quantizer.zero}
    image = packer.form(x, axes)
    if everything:
        op = "Int8GlobalAveragePool"
        tensor = packer.emit(op, [image], packer.fresh(f"{result[3]}/int8"), {**frame(result), **scales})
    else:
        assert isinstance(kernel, tuple)
        sides = [int(n) for n in kernel]
        windows: dict[str, int | float | Sequence[int]] = {**spatial(node, axes)}
        windows["kernel_shape"] = sides if axes == 2 else [1, *sides]
        if mean:
            counted = attrs.get("count_include_pad", 0)
            windows |= {**frame(result), **scales, "count_include_pad": int(bool(counted))}
        op = "Int8AveragePool" if mean else "Int8MaxPool"
        tensor = packer.emit(op, [image], packer.fresh(f"{result[3]}/int8"), windows)
    keep(packer, result, axes, tensor, x.channels)
    return True


def pool_rule(mean: bool, everything: bool) -> Rule:
    """The rule of a pool between two borders."""

    def rule(packer: Packer, node: NodeProto) -> bool:
        x = packer.value(node.input[0])
        if x is None or len(node.output) > 1 or x.origin is not None:
            return False
        if node.input[0] in packer.codes:  # an operator over 8 bits that keeps the scale
            return not mean and pool(packer, node, x, whole(x.quantizer, node.output[0]), mean, everything)
        result = packer.tail(node.output[0])
        if result is None:
            return False
        if mean or result[:3] == (x.quantizer, -SHIFT, SHIFT - 1):
            return pool(packer, node, x, result, mean, everything)
        middle = packer.fresh(f"{result[3]}/largest")
        pool(packer, node, x, whole(x.quantizer, middle), mean, everything)
        packer.codes[result[3]] = clipped(packer, packer.codes[middle], result)
        return True

    return rule


def linear_pool_rule(everything: bool) -> Callable[[Packer, NodeProto], None]:
    """QLinearGlobalAveragePool and QLinearAveragePool: x and y, each with its scale and zero."""

    def rule(packer: Packer, node: NodeProto) -> None:
        if plain_node(node).attrs.get("channels_last", 0):
            raise refused(node, "channels_last is 1", "channels_last 0")
        result = whole(packer.quantizer(node, 3), node.output[0])
        pool(packer, node, operand(packer, node, 0), result, True, everything)

    return rule


between_borders("AveragePool")(pool_rule(True, False))
between_borders("GlobalAveragePool")(pool_rule(True, True))
between_borders("MaxPool")(pool_rule(False, False))
over_eights("QLinearAveragePool")(linear_pool_rule(False))
over_eights("QLinearGlobalAveragePool")(linear_pool_rule(True))
