"""Rules that compute operators of a quantized model in integers, from floats between two borders or over 8 bits."""

from collections.abc import Callable, Sequence

import numpy as np
from onnx import NodeProto, helper
from onnx.reference import ReferenceEvaluator

from deployer.core.operator import Array
from deployer.frontend.prepare import to_array
from deployer.frontend.quantized.packing import Attributes, Packer, Rule
from deployer.frontend.quantized.values import (
    EVERY,
    PLAIN,
    ROWS,
    SHIFT,
    Codes,
    Constant,
    Quantizer,
    plain_node,
    refused,
)

Result = tuple[Quantizer, int, int, str]
"""How a sum becomes a value of 8 bits: quantizer, least and most number, and the value's name."""


def whole(quantizer: Quantizer, name: str) -> Result:
    """The result of an operator over 8 bits, which takes the whole range."""
    return quantizer, -SHIFT, SHIFT - 1, name


def frame(result: Result) -> dict[str, int]:
    """Attributes of a node's result."""
    quantizer, low, high, _ = result
    return {"zero": quantizer.zero, "low": low, "high": high}


def keep(packer: Packer, result: Result, layout: int | str, tensor: str, channels: int = 0) -> None:
    """Note which tensor holds a value of the model."""
    packer.codes[result[3]] = Codes(result[0], {layout: tensor}, channels=channels)


# Convolutions and products.


def spatial(node: NodeProto, axes: int) -> dict[str, list[int]]:
    """Strides, dilations and pads of rows and columns; a signal is an image of one row."""
    attrs = plain_node(node).attrs
    if attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID", ""):
        raise refused(node, f"auto_pad is {attrs['auto_pad']}", "pads in numbers")
    if attrs.get("ceil_mode", 0):
        raise refused(node, "ceil_mode is 1", "ceil_mode 0")
    numbers = {}
    for name, default, count in (("strides", 1, axes), ("dilations", 1, axes), ("pads", 0, 2 * axes)):
        given = attrs.get(name, (default,) * count)
        found = [n for n in (given if isinstance(given, tuple) else (given,)) if isinstance(n, int)]
        if len(found) != count:
            raise refused(node, f"{name} is {given}", f"{count} numbers")
        numbers[name] = found
    if axes == 1:
        begin, end = numbers["pads"]
        numbers["pads"] = [0, begin, 0, end]
        for name in ("strides", "dilations"):
            numbers[name] = [1, *numbers[name]]
    return numbers


def bias_of(packer: Packer, node: NodeProto, position: int, steps: Array, filters: int) -> Array:
    """A node's bias as integers, in units of the products' scale `steps`; zeros where it has none."""
    name = node.input[position] if position < len(node.input) else ""
    if not name:
        return np.zeros(filters, np.int64)
    known = packer.constants.get(name)
    if known is not None and np.array_equal(known.zeros, np.zeros_like(known.zeros)):
        scales = np.broadcast_to(known.scales, (filters,)) if known.scales.size in (1, filters) else known.scales
        if scales.shape == (filters,) and np.allclose(scales, steps, rtol=1e-5, atol=0):
            return known.numbers.reshape(-1)
    if known is None and name not in packer.initializers:
        raise refused(node, f"its bias {name!r} is computed at run time", "a constant")
    floats = known.floats if known is not None else to_array(packer.initializers[name])
    if floats.dtype.kind != "f":  # that of an operator over 8 bits is in these units already
        return floats.astype(np.int64).reshape(-1)
    if floats.size not in (1, filters):
        raise refused(node, f"its bias has {floats.size} numbers, and there are {filters} filters", "one for each")
    return np.rint(np.broadcast_to(floats.reshape(-1), (filters,)).astype(np.float64) / steps).astype(np.int64)


def convolve(packer: Packer, node: NodeProto, x: Codes, w: Constant, bias: int, result: Result) -> bool:
    """A convolution by filters [M, C / group, ...]; `bias` is the position of its bias."""
    axes = w.numbers.ndim - 2
    if axes not in (1, 2):
        raise refused(node, f"its filters have {axes} spatial axes", "one or two")
    group = plain_node(node).attrs.get("group", 1)
    filters, each = w.numbers.shape[:2]
    image = w.numbers if axes == 2 else w.numbers[:, :, None]
    numbers = spatial(node, axes)
    depthwise = group == filters and each == 1 and group != 1
    packed = image[:, 0].transpose(1, 2, 0) if depthwise else image.transpose(0, 2, 3, 1)
    more: dict[str, int] = {} if depthwise else {"group": int(group) if isinstance(group, int) else 1}
    op = "Int8DepthwiseConv" if depthwise else "Int8Conv"
    tensor = _sums(packer, node, op, packer.form(x, axes), x, w, packed, bias, result, {**numbers, **more})
    keep(packer, result, axes, tensor, filters)
    return True


def multiply(packer: Packer, node: NodeProto, x: Codes, w: Constant, bias: int, result: Result) -> bool:
    """A product of rows with a matrix [K, N]; `bias` is the position of a bias, -1 for none."""
    matrix = w.numbers.T
    if x.origin is not None:
        channels = x.origin.channels
        if not channels or matrix.shape[1] % channels:
            raise refused(node, f"{channels} channels do not make {matrix.shape[1]} numbers", "the rows of its images")
        places = matrix.shape[1] // channels
        matrix = matrix.reshape(-1, channels, places).transpose(0, 2, 1).reshape(matrix.shape)
        rows = x.forms[ROWS]
    else:
        rows = packer.form(x, PLAIN)
    packed = np.ascontiguousarray(matrix)[:, None, None]
    tensor = _sums(packer, node, "Int8Conv", rows, x, w, packed, bias, result, {})
    keep(packer, result, PLAIN, tensor)
    packer.codes[result[3]].matrix = True
    return True


def _sums(
    packer: Packer,
    node: NodeProto,
    op: str,
    image: str,
    x: Codes,
    w: Constant,
    packed: Array,
    bias: int,
    result: Result,
    more: Attributes,
) -> str:
    """Emit a node that sums products, with its constants; returns its output."""
    filters = packed.shape[-1] if op == "Int8DepthwiseConv" else packed.shape[0]
    scales = np.broadcast_to(w.scales, (filters,))
    if len(set(w.zeros.tolist())) > 1:
        moved = packed - (w.zeros if op == "Int8DepthwiseConv" else w.zeros.reshape(-1, 1, 1, 1))
        if moved.min() < -SHIFT or moved.max() >= SHIFT:
            cause = f"its weights are {moved.min()} to {moved.max()} beside their zeros, which 8 bits do not hold"
            raise refused(node, cause, "symmetric weights, or one zero for the whole tensor")
        packed, zero = moved, 0
    else:
        zero = int(w.zeros[0])
    steps = (x.quantizer.scale * scales).astype(np.float32)
    taps = (packed - zero).sum((0, 1) if op == "Int8DepthwiseConv" else (1, 2, 3))
    start = bias_of(packer, node, bias, steps, filters) if bias >= 0 else np.zeros(filters, np.int64)
    start = start - x.quantizer.zero * taps
    if np.abs(start).max(initial=0) >= 1 << 31:
        raise refused(node, f"its bias reaches {np.abs(start).max()}, which 32 bits do not hold", "a larger scale")
    base = node.name or node.output[0]
    names = [
        packer.tensor(f"{base}/weights", packed.astype(np.int8)),
        packer.tensor(f"{base}/bias", start.astype(np.int32)),
        packer.tensor(f"{base}/ratios", (steps / result[0].scale).astype(np.float32)),
    ]
    zeros = {"x_zero": x.quantizer.zero} | ({"w_zero": zero} if zero else {})
    return packer.emit(op, [image, *names], packer.fresh(f"{result[3]}/int8"), {**frame(result), **zeros, **more})


# Functions of one number, sums, pools, and what moves numbers.


def requantized(packer: Packer, x: Codes, quantizer: Quantizer, name: str) -> Codes:
    """The value in another scale."""
    return x if x.quantizer == quantizer else packer.lookup(x, quantizer, lambda floats: floats, name)


def layout_of(values: Sequence[Codes]) -> int | str:
    """The layout that several values are brought to: that of images where one of them is held so."""
    return next((x.images for x in values if x.images), PLAIN)


def add(packer: Packer, a: Codes, b: Codes, result: Result) -> bool:
    """The sum of two values of one shape."""
    layout = layout_of((a, b))
    names = [packer.form(x, layout) for x in (a, b)]
    ratios = [float(np.float32(x.quantizer.scale / result[0].scale)) for x in (a, b)]
    zeros = {"a_zero": a.quantizer.zero, "b_zero": b.quantizer.zero}
    more: dict[str, int | float] = {"a_ratio": ratios[0], "b_ratio": ratios[1], **zeros, **frame(result)}
    keep(
        packer,
        result,
        layout,
        packer.emit("Int8Add", names, packer.fresh(f"{result[3]}/int8"), more),
        a.channels or b.channels,
    )
    return True


def channels_last(layout: int | str) -> tuple[int, ...]:
    """The model's axis of each axis of a layout; a signal's row is none of them."""
    if not isinstance(layout, int):
        return (0, 1)
    return (0, 2, 3, 1) if layout == 2 else (0, -1, 2, 1)


def join(packer: Packer, values: Sequence[Codes], axis: int, result: Result) -> bool:
    """Values one behind the other, all in the scale of the result."""
    layout = layout_of(values)
    name = result[3]
    same = [requantized(packer, x, result[0], name) for x in values]
    if isinstance(layout, int):
        axis = channels_last(layout).index(axis)
    names = [packer.form(x, layout) for x in same]
    joined = (
        packer.emit("Int8Concat", names, packer.fresh(f"{name}/int8"), {"axis": axis}) if len(names) > 1 else names[0]
    )
    if result[1:3] != (-SHIFT, SHIFT - 1):
        bounds = np.clip(EVERY, result[1], result[2]).astype(np.int8)
        table = packer.tensor(f"{name}/table", bounds)
        joined = packer.emit("Int8Lookup", [joined, table], packer.fresh(f"{name}/clipped"))
    channels = [x.channels for x in values]
    known = sum(channels) if all(channels) else 0
    keep(packer, result, layout, joined, known if axis == len(channels_last(layout)) - 1 else channels[0])
    return True


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


def flatten(packer: Packer, x: Codes, name: str) -> None:
    """Images as rows of a matrix, with the channels innermost where the images have them so."""
    tensor = x.forms[x.images]
    shape = packer.tensor(f"{name}/shape", np.array([0, -1], np.int64))
    rows = packer.emit_float("Reshape", [tensor, shape], packer.fresh(f"{name}/rows"))
    packer.codes[name] = Codes(x.quantizer, {ROWS: rows}, origin=x)


# Operators between floats.


def weight(packer: Packer, node: NodeProto, position: int) -> Constant | None:
    """The quantized constant at a position of a node's inputs."""
    return packer.constants.get(node.input[position]) if position < len(node.input) else None


def float_conv(packer: Packer, node: NodeProto) -> bool:
    """A convolution whose filters are quantized, in front of a QuantizeLinear."""
    x, w = packer.value(node.input[0]), weight(packer, node, 1)
    if x is None or w is None or (result := packer.tail(node.output[0])) is None:
        return False
    return convolve(packer, node, x, w, 2, result)


def float_gemm(packer: Packer, node: NodeProto) -> bool:
    """A product with a quantized matrix, in front of a QuantizeLinear."""
    x, w, attrs = packer.value(node.input[0]), weight(packer, node, 1), plain_node(node).attrs
    usual = not attrs.get("transA", 0) and attrs.get("alpha", 1.0) == 1.0 and attrs.get("beta", 1.0) == 1.0
    if x is None or w is None or w.numbers.ndim != 2 or not usual:
        return False
    if (result := packer.tail(node.output[0])) is None:
        return False
    return multiply(packer, node, x, turned(w) if attrs.get("transB", 0) else w, 2, result)


def is_matrix(packer: Packer, name: str, x: Codes) -> bool:
    """Whether a value is known to have two axes."""
    return x.matrix or x.origin is not None or packer.rank(name, 0) == 2 or packer.rank(x.floats, 0) == 2


def flattens(packer: Packer, node: NodeProto) -> bool:
    """Whether a Flatten or a Reshape makes rows of images, and a product in integers reads them."""
    if node.op_type == "Flatten":
        rows = plain_node(node).attrs.get("axis", 1) == 1
    else:
        shape = packer.initializers.get(node.input[1]) if len(node.input) > 1 else None
        lengths = [] if shape is None else to_array(shape).reshape(-1).tolist()
        rows = len(lengths) == 2 and (lengths[0] in (0, 1, -1)) and (lengths[1] == -1 or lengths[0] in (0, -1))
    reader, name = node, node.output[0]
    while rows and len(packer.readers[name]) == 1 and name not in packer.outputs:
        reader = packer.readers[name][0]
        if reader.op_type in ("QGemm", "QLinearMatMul"):
            return True
        if reader.op_type in ("Gemm", "MatMul"):
            return reader.input[0] == name and len(reader.input) > 1 and packer.is_constant_matrix(reader)
        if reader.op_type not in ("QuantizeLinear", "DequantizeLinear"):
            return False
        name = reader.output[0]
    return False


def turned(w: Constant) -> Constant:
    """The transpose of a matrix."""
    return Constant(w.numbers.T, w.scales, w.zeros, 1 - w.axis)


def float_matmul(packer: Packer, node: NodeProto) -> bool:
    """A product of a matrix with a quantized one."""
    x, w = packer.value(node.input[0]), weight(packer, node, 1)
    if x is None or w is None or w.numbers.ndim != 2 or not is_matrix(packer, node.input[0], x):
        return False
    if (result := packer.tail(node.output[0])) is None:
        return False
    return multiply(packer, node, x, w, -1, result)


def float_add(packer: Packer, node: NodeProto) -> bool:
    """The sum of two quantized values of one shape."""
    a, b = (packer.value(name) for name in node.input)
    if a is None or b is None or not packer.same_shape(*node.input):
        return False
    return (result := packer.tail(node.output[0])) is not None and add(packer, a, b, result)


def float_concat(packer: Packer, node: NodeProto) -> bool:
    """Quantized values one behind the other."""
    values = [packer.value(name) for name in node.input]
    present = [x for x in values if x is not None]
    axis = plain_node(node).attrs.get("axis", 1)
    rank = 2 + layout if isinstance(layout := layout_of(present), int) else 0
    if len(present) < len(values) or not isinstance(axis, int) or any(x.origin for x in present):
        return False
    if rank == 0 and axis < 0:
        return False
    result = packer.tail(node.output[0])
    return result is not None and join(packer, present, axis % rank if rank else axis, result)


def float_pool(mean: bool, everything: bool) -> Rule:
    """The rule of a pool."""

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


def clipped(packer: Packer, x: Codes, result: Result) -> Codes:
    """The value in the result's scale and bounds."""
    quantizer, low, high, name = result
    least, most = ((n - quantizer.zero) * np.float64(quantizer.scale) for n in (low, high))
    return packer.lookup(x, quantizer, lambda floats: np.clip(floats, least, most), name)


def float_function(packer: Packer, node: NodeProto) -> bool:
    """A function of one number, in front of a QuantizeLinear: its table."""
    x = packer.value(node.input[0])
    if x is None or len(node.output) != 1 or any(name not in packer.initializers for name in node.input[1:] if name):
        return False
    result = packer.tail(node.output[0])
    if result is None:
        return False
    function = tabled(packer, node)
    quantizer, low, high, name = result
    least, most = ((n - quantizer.zero) * np.float64(quantizer.scale) for n in (low, high))
    packer.codes[name] = packer.lookup(x, quantizer, lambda floats: np.clip(function(floats), least, most), name)
    return True


def tabled(packer: Packer, node: NodeProto) -> Callable[[Array], Array]:
    """A node as a function of an array of floats, by ONNX's own reference."""
    proto = NodeProto()
    proto.CopyFrom(node)
    floats = helper.make_tensor_value_info(node.input[0], 1, [len(EVERY)])
    result = helper.make_tensor_value_info(node.output[0], 1, [len(EVERY)])
    constants = [packer.initializers[name] for name in dict.fromkeys(node.input[1:]) if name]
    graph = helper.make_graph([proto], "function", [floats], [result], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", packer.opset)])
    evaluator = ReferenceEvaluator(model)

    def function(values: Array) -> Array:
        try:
            with np.errstate(all="ignore"):
                results: list[Array] = list(evaluator.run(None, {node.input[0]: values}))  # type: ignore[arg-type]
        except RuntimeError as error:
            raise refused(node, f"ONNX's reference does not compute it ({error})", "attributes of its form") from None
        return np.asarray(results[0])

    return function


def float_flatten(packer: Packer, node: NodeProto) -> bool:
    """Images as rows, where what reads them is a product in integers."""
    x = packer.value(node.input[0])
    shapes = node.op_type in ("Flatten", "Reshape")
    if x is None or x.origin is not None or not (shapes and x.images and x.channels) or not flattens(packer, node):
        return False
    if node.input[0] in packer.codes:
        name = node.output[0]
    else:
        readers = packer.readers[node.output[0]]
        if len(readers) != 1 or readers[0].op_type != "QuantizeLinear" or node.output[0] in packer.outputs:
            return False
        if packer.quantizer(readers[0], 1) != x.quantizer:
            return False
        packer.done.add(id(readers[0]))
        name = readers[0].output[0]
    flatten(packer, x, name)
    return True


def float_move(packer: Packer, node: NodeProto) -> bool:
    """What gives a value another shape or order: of floats, which keep their values, where no rule has integers."""
    x, name, result = packer.value(node.input[0]), node.input[0], node.output[0]
    if float_flatten(packer, node):
        return True
    if x is None or any(packer.value(other) is not None for other in node.input[1:]):
        return False
    copy = NodeProto()
    copy.CopyFrom(node)
    if name in packer.floats:
        packer.keep(copy)
        packer.there.add(result)
        packer.floats[result] = Codes(x.quantizer, floats=result, exact=True)
        return True
    for other in node.input[1:]:
        packer.materialise(other, node)
    copy.input[0] = x.floats if x.exact else packer.float_of(x)
    copy.output[0] = packer.fresh(f"{result}/float")
    packer.nodes.append(copy)
    packer.codes[result] = Codes(x.quantizer, floats=copy.output[0], exact=True)
    return True


# Operators over 8 bits.


def operand(packer: Packer, node: NodeProto, position: int) -> Codes:
    """The value of 8 bits at a position of a node's inputs, whose scale and zero follow."""
    name, quantizer = node.input[position], packer.quantizer(node, position + 1)
    codes = packer.codes.get(name)
    if codes is None and name in packer.inputs:
        raise refused(node, f"its input {name!r} is one of the model, of 8 bits", "a QuantizeLinear before it")
    if codes is None:
        raise refused(node, f"its input {name!r} is no value of 8 bits", "a QuantizeLinear before it")
    if codes.quantizer != quantizer:
        return Codes(quantizer, dict(codes.forms)) if codes.forms else requantized(packer, codes, quantizer, name)
    return codes


def linear_conv(packer: Packer, node: NodeProto) -> None:
    """QLinearConv: x, its scale and zero, w with its own, y's, and a bias."""
    w = packer.constant(node, 3, 0)
    convolve(packer, node, operand(packer, node, 0), w, 8, whole(packer.quantizer(node, 6), node.output[0]))


def linear_matmul(packer: Packer, node: NodeProto) -> None:
    """QLinearMatMul of a matrix with a constant one."""
    w = packer.constant(node, 3, 1)
    x = operand(packer, node, 0)
    if w.numbers.ndim != 2 or not is_matrix(packer, node.input[0], x):
        raise refused(node, "its operands are no matrices", "a matrix, and a constant one")
    multiply(packer, node, x, w, -1, whole(packer.quantizer(node, 6), node.output[0]))


def linear_gemm(packer: Packer, node: NodeProto) -> None:
    """QGemm: a, its scale and zero, b with its own, a bias of 32 bits, and y's scale and zero."""
    attrs = plain_node(node).attrs
    if attrs.get("transA", 0) or attrs.get("alpha", 1.0) != 1.0:
        raise refused(node, f"transA is {attrs.get('transA', 0)}, alpha {attrs.get('alpha', 1.0)}", "0 and 1")
    transposed = bool(attrs.get("transB", 0))
    w = packer.constant(node, 3, 0 if transposed else 1)
    w = turned(w) if transposed else w
    x = operand(packer, node, 0)
    if len(node.input) > 7 and node.input[7]:
        multiply(packer, node, x, w, 6, whole(packer.quantizer(node, 7), node.output[0]))
        return
    steps = (x.quantizer.scale * np.broadcast_to(w.scales, w.numbers.shape[1:])).astype(np.float32)
    name = packer.tensor(f"{node.name}/matrix", w.floats)
    bias = bias_of(packer, node, 6, steps, w.numbers.shape[1]).astype(np.float32) * steps
    floats = packer.float_of(x)
    packer.emit_float("Gemm", [floats, name, packer.tensor(f"{node.name}/bias", bias)], node.output[0])
    packer.there.add(node.output[0])


def linear_add(packer: Packer, node: NodeProto) -> None:
    """QLinearAdd: a, its scale and zero, b with its own, and the result's."""
    if node.input[0] in packer.initializers or node.input[3] in packer.initializers:
        raise refused(node, "one of its operands is a constant", "two values; a bias belongs to the layer before it")
    if not packer.same_shape(node.input[0], node.input[3]):
        raise refused(node, "its operands are broadcast, or their shapes are not known", "two values of one shape")
    a, b = operand(packer, node, 0), operand(packer, node, 3)
    add(packer, a, b, whole(packer.quantizer(node, 6), node.output[0]))


def linear_pool(everything: bool) -> Callable[[Packer, NodeProto], None]:
    """QLinearGlobalAveragePool and QLinearAveragePool: x and y, each with its scale and zero."""

    def rule(packer: Packer, node: NodeProto) -> None:
        if plain_node(node).attrs.get("channels_last", 0):
            raise refused(node, "channels_last is 1", "channels_last 0")
        result = whole(packer.quantizer(node, 3), node.output[0])
        pool(packer, node, operand(packer, node, 0), result, True, everything)

    return rule


def linear_concat(packer: Packer, node: NodeProto) -> None:
    """QLinearConcat: y's scale and zero, then each operand with its own."""
    quantizer, axis = packer.quantizer(node, 0), plain_node(node).attrs.get("axis", 1)
    values = [operand(packer, node, position) for position in range(2, len(node.input), 3)]
    rank = 2 + layout if isinstance(layout := layout_of(values), int) else 0
    if not isinstance(axis, int) or (axis < 0 and not rank) or any(x.origin for x in values):
        raise refused(node, f"axis is {axis}", "an axis from 0")
    join(packer, values, axis % rank if rank else axis, whole(quantizer, node.output[0]))


def linear_function(op: str) -> Callable[[Packer, NodeProto], None]:
    """QLinearSigmoid and QLinearLeakyRelu: x and y, each with its scale and zero."""

    def rule(packer: Packer, node: NodeProto) -> None:
        inner = helper.make_node(op, [node.input[0]], [node.output[0]], node.name)
        inner.attribute.extend(node.attribute)
        x, quantizer = operand(packer, node, 0), packer.quantizer(node, 3)
        packer.codes[node.output[0]] = packer.lookup(x, quantizer, tabled(packer, inner), node.output[0])

    return rule


FUNCTIONS = (
    "Relu",
    "Clip",
    "Sigmoid",
    "Tanh",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Elu",
    "Selu",
    "Softplus",
    "Gelu",
)
"""Functions of one number that become a table between two borders."""
MOVES = ("Flatten", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Identity")
"""Operators that keep each number."""
RULES: dict[str, Rule] = {
    "Conv": float_conv,
    "Gemm": float_gemm,
    "MatMul": float_matmul,
    "Add": float_add,
    "Concat": float_concat,
    "AveragePool": float_pool(True, False),
    "GlobalAveragePool": float_pool(True, True),
    "MaxPool": float_pool(False, False),
    **dict.fromkeys(MOVES, float_move),
    **dict.fromkeys(FUNCTIONS, float_function),
}
"""Rules of operators that the model computes between floats, or over 8 bits as they are."""
LINEAR: dict[str, Callable[[Packer, NodeProto], None]] = {
    "QLinearConv": linear_conv,
    "QLinearMatMul": linear_matmul,
    "QGemm": linear_gemm,
    "QLinearAdd": linear_add,
    "QLinearAveragePool": linear_pool(False),
    "QLinearGlobalAveragePool": linear_pool(True),
    "QLinearConcat": linear_concat,
    "QLinearSigmoid": linear_function("Sigmoid"),
    "QLinearLeakyRelu": linear_function("LeakyRelu"),
}
"""Rules of operators over 8 bits, of ONNX and of its runtime."""
