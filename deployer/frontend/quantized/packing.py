"""A quantized model to operators of 8 bits with the channels innermost: constants are packed once, here.

Both of the forms of ONNX are read: QuantizeLinear and DequantizeLinear around operators over floats, and operators
such as QLinearConv. An operator between two of the former is computed in integers where there is an integer form of
it, and in floats between a DequantizeInt8 and a QuantizeInt8 where there is none.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from deployer.core.errors import GraphProblem
from deployer.core.ir import GraphNames
from deployer.core.operator import Array
from deployer.core.signatures import MICROSOFT
from deployer.frontend.model_parts import reads
from deployer.frontend.prepare import to_array
from deployer.frontend.quantized.values import (
    EIGHT_BITS,
    EVERY,
    PLAIN,
    SHIFT,
    Codes,
    Layout,
    Quantizer,
    StoredNumbers,
    plain_node,
    refused,
)

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
PER_TENSOR = "one scale and zero for the whole tensor; weights may have some for each channel"


Attributes = Mapping[str, int | float | Sequence[int]]
NONE: Attributes = {}


class Packer:
    """The state of one packing: values met so far, constants, and the nodes that come out."""

    def __init__(self, model: ModelProto) -> None:
        graph = model.graph
        self.model, self.graph, self.nodes = model, graph, list[NodeProto]()
        self.initializers = {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant" and [a.name for a in node.attribute] == ["value"] and node.output:
                self.initializers.setdefault(node.output[0], node.attribute[0].t)
        values = [v.name for v in (*graph.input, *graph.output, *graph.value_info)]
        self.names = GraphNames({*values, *self.initializers, *(n for x in graph.node for n in (*x.input, *x.output))})
        self.node_names = GraphNames({node.name for node in graph.node})
        self.made = list[TensorProto]()
        self.codes: dict[str, Codes] = {}
        """Values of 8 bits, by the names of their tensors in the model."""
        self.floats: dict[str, Codes] = {}
        """Values of 8 bits, by the names of the floats that they stand for."""
        self.constants: dict[str, StoredNumbers] = {}
        """Constants, by the names of the floats that they stand for."""
        self.readers: dict[str, list[NodeProto]] = defaultdict(list)
        for node in graph.node:
            for name in reads(node):
                self.readers[name].append(node)
        self.opset = max([entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")] or [1])
        self.declared: dict[str, tuple[int | str, ...]] = {}
        for info in (*graph.value_info, *graph.input, *graph.output):
            if info.type.HasField("tensor_type") and info.type.tensor_type.HasField("shape"):
                dims = info.type.tensor_type.shape.dim
                self.declared[info.name] = tuple(d.dim_param or d.dim_value for d in dims)
        self.outputs = {value.name for value in graph.output}
        self.inputs = {value.name: value for value in graph.input if value.name not in self.initializers}
        self.done: set[int] = set()
        """Nodes that another one has absorbed, by identity."""
        self.there = {*self.inputs, *(t.name for t in graph.initializer)}

    def finish(self) -> None:
        """Put the nodes that came out, and the constants that they read, into the model."""
        for name in [v.name for v in self.graph.output]:
            self.materialise(name, None)
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)
        used = {name for node in self.nodes for name in reads(node)} | self.outputs
        kept = [t for t in (*self.graph.initializer, *self.made) if t.name in used]
        del self.graph.initializer[:]
        self.graph.initializer.extend(kept)
        values = [v for v in self.graph.value_info if v.name in used]
        del self.graph.value_info[:]
        self.graph.value_info.extend(values)
        if not any(entry.domain == MICROSOFT for entry in self.model.opset_import):
            self.model.opset_import.append(helper.make_opsetid(MICROSOFT, 1))

    # Reading: constants, and values of 8 bits.

    def array(self, node: NodeProto, position: int) -> Array | None:
        """The constant that is an input of a node; None where there is none, an error where it is computed."""
        name = node.input[position] if position < len(node.input) else ""
        if not name:
            return None
        if name not in self.initializers:
            raise refused(node, f"its input {position} ({name!r}) is computed at run time", "a constant")
        try:
            return to_array(self.initializers[name])
        except (ValueError, TypeError) as error:
            raise refused(node, f"its input {position} ({name!r}) is damaged: {error}", "a constant") from None

    def element(self, node: NodeProto, position: int) -> int:
        """ONNX's element type of a constant input; UINT8 where there is none, as ONNX says of a zero point."""
        name = node.input[position] if position < len(node.input) else ""
        return self.initializers[name].data_type if name in self.initializers else int(TensorProto.UINT8)

    def quantizer(self, node: NodeProto, position: int) -> Quantizer:
        """The scale at a position of a node's inputs, and the zero behind it."""
        scale, zero, element = (
            self.array(node, position),
            self.array(node, position + 1),
            self.element(node, position + 1),
        )
        if element not in EIGHT_BITS:
            raise refused(node, f"its numbers are of {TensorProto.DataType.Name(element)}", "INT8 or UINT8")
        if scale is None or scale.size != 1 or (zero is not None and zero.size != 1):
            raise refused(node, f"its scale has {0 if scale is None else scale.size} numbers", PER_TENSOR)
        number = np.float32(scale.reshape(()))
        if not (np.isfinite(number) and number > 0):
            raise refused(node, f"its scale is {number}", "a finite scale above zero")
        unsigned = element == TensorProto.UINT8
        return Quantizer(number, (0 if zero is None else int(zero.reshape(()))) - SHIFT * unsigned, unsigned)

    def constant(self, node: NodeProto, position: int, axis: int) -> StoredNumbers:
        """Numbers, scales and zeros at three positions of a node's inputs from this one on."""
        numbers, scales, zeros = (self.array(node, position + i) for i in range(3))
        element = self.element(node, position)
        if numbers is None or scales is None or element not in (*EIGHT_BITS, TensorProto.INT32):
            raise refused(node, f"its constant is of {TensorProto.DataType.Name(element)}", "INT8, UINT8 or INT32")
        if zeros is None:
            zeros = np.zeros(scales.shape, np.int64)
        shift = SHIFT * (element == TensorProto.UINT8)
        if not (np.isfinite(scales).all() and (scales > 0).all()):
            raise refused(node, "a scale of its constant is not above zero", "finite scales above zero")
        axis = axis % max(numbers.ndim, 1)
        length = numbers.shape[axis] if numbers.ndim else 1
        if scales.size not in (1, length) or zeros.size not in (1, length) or scales.ndim > 1:
            raise refused(node, f"its constant has {scales.shape} scales along axis {axis}", "one, or one per channel")
        wide = numbers.astype(np.int64) - shift
        return StoredNumbers(
            wide, scales.astype(np.float32).reshape(-1), zeros.astype(np.int64).reshape(-1) - shift, axis
        )

    def value(self, name: str) -> Codes | None:
        """The value of 8 bits behind a tensor of the model, or behind a float that it stands for."""
        return self.codes.get(name) or self.floats.get(name)

    def of_codes(self, node: NodeProto) -> bool:
        """Whether a node's first input is a value of 8 bits."""
        return bool(node.input) and self.value(node.input[0]) is not None

    # Writing: nodes, constants, and layouts of values.

    def tensor(self, base: str, array: Array) -> str:
        """Add a constant; returns its name."""
        name = self.names.fresh(base)
        self.made.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def emit(self, op: str, inputs: Sequence[str], output: str, attrs: Attributes = NONE) -> str:
        """Append a node over 8 bits; returns its output."""
        return self._append(op, inputs, output, MICROSOFT, attrs)

    def emit_float(self, op: str, inputs: Sequence[str], output: str, attrs: Attributes = NONE) -> str:
        """Append a node of ONNX; returns its output."""
        return self._append(op, inputs, output, "", attrs)

    def _append(self, op: str, inputs: Sequence[str], output: str, domain: str, attrs: Attributes) -> str:
        name = self.node_names.fresh(f"{output}/{op}")
        node = helper.make_node(op, list(inputs), [output], name, domain=domain)
        node.attribute.extend(helper.make_attribute(key, value) for key, value in sorted(attrs.items()))
        self.nodes.append(node)
        return output

    def fresh(self, base: str) -> str:
        """A name for a value that the model does not have."""
        return self.names.fresh(base)

    def form(self, codes: Codes, layout: Layout) -> str:
        """The tensor that holds a value in a layout: as in the model, or with channels behind so many spatial axes."""
        if layout in codes.forms:
            return codes.forms[layout]
        source = codes.floats or self.float_of(codes)
        frame: Attributes = {"scale": float(codes.quantizer.scale), "zero": codes.quantizer.zero}
        if layout == PLAIN:
            found = self.emit("QuantizeInt8", [source], self.fresh(f"{source}/int8"), frame)
        else:
            assert isinstance(layout, int)
            found = self.emit("QuantizeInt8Images", [source], self.fresh(f"{source}/int8"), frame)
        codes.forms[layout] = found
        return found

    def float_of(self, codes: Codes, output: str = "") -> str:
        """A float tensor that holds a value, under a name where one is given."""
        layout, name = next(iter(codes.forms.items()))
        base = output or self.fresh(f"{name}/float")
        if codes.origin is not None:
            shape = self.tensor(f"{base}/shape", np.array([0, -1], np.int64))
            return self.emit_float("Reshape", [self.float_of(codes.origin), shape], base)
        frame: Attributes = {"scale": float(codes.quantizer.scale), "zero": codes.quantizer.zero}
        if layout == PLAIN:
            return self.emit("DequantizeInt8", [name], base, frame)
        assert isinstance(layout, int)
        return self.emit("DequantizeInt8Images", [name], base, {**frame, "axes": layout})

    def materialise(self, name: str, reader: NodeProto | None) -> None:
        """Make a float of the model that a node, or the end of the model, reads."""
        if name in self.there:
            return
        if name in self.constants:
            self.made.append(numpy_helper.from_array(self.constants[name].floats, name))
        elif name in self.floats:
            codes = self.floats[name]
            if codes.exact:
                self.emit_float("Identity", [codes.floats], name)
                self.there.add(name)
                return
            if codes.floats and not codes.forms:
                self.form(codes, PLAIN)
            self.float_of(codes, name)
        elif name in self.codes:
            if reader is None:
                cause = f"the output {name!r} has 8 bits, and the program's results are floats"
                raise GraphProblem(cause, hint="a DequantizeLinear behind it")
            raise refused(reader, f"it reads {name!r}, which has 8 bits", "an operator of 8 bits, or DequantizeLinear")
        else:
            return
        self.there.add(name)

    def keep(self, node: NodeProto) -> None:
        """Append a node of the model as it is."""
        for name in reads(node):
            self.materialise(name, node)
        self.nodes.append(node)

    # The borders of a quantized model.

    def quantize(self, node: NodeProto) -> None:
        """QuantizeLinear: a value of 8 bits, made where it is read."""
        source, quantizer = node.input[0], self.quantizer(node, 1)
        before = self.floats.get(source)
        if before is not None and before.quantizer == quantizer:
            self.codes[node.output[0]] = before
            return
        if before is not None and before.forms:
            self.codes[node.output[0]] = self.lookup(before, quantizer, lambda x: x, node.output[0])
            return
        self.materialise(source, node)
        self.codes[node.output[0]] = Codes(quantizer, floats=source)

    def dequantize(self, node: NodeProto) -> None:
        """DequantizeLinear: the float that a value, or a constant, stands for."""
        name, result = node.input[0], node.output[0]
        attrs = plain_node(node).attrs
        axis = attrs.get("axis", 1)
        if attrs.get("block_size") and (name in self.codes or name in self.initializers):
            raise refused(node, f"block_size is {attrs['block_size']}", PER_TENSOR)
        if name in self.initializers and node.input[1] in self.initializers:
            self.constants[result] = self.constant_of(node, axis if isinstance(axis, int) else 1)
            return
        codes = self.codes.get(name)
        if codes is None:
            self.keep(node)  # which takes integers of any origin, and scales that are computed
            self.there.add(result)
            if name in self.inputs and self.declared_element(name) in EIGHT_BITS and node.input[1] in self.initializers:
                self.floats[result] = Codes(self.quantizer(node, 1), floats=result, exact=True)
            return
        quantizer = self.quantizer(node, 1)
        if codes.quantizer != quantizer:
            cause = f"it takes {name!r} by another scale or zero than what made it"
            raise refused(node, cause, f"scale {codes.quantizer.scale}, and that zero")
        self.floats[result] = codes

    def constant_of(self, node: NodeProto, axis: int) -> StoredNumbers:
        """The constant that a DequantizeLinear reads."""
        return self.constant(node, 0, axis)

    def lookup(self, x: Codes, quantizer: Quantizer, function: Callable[[Array], Array], name: str) -> Codes:
        """A value that is a function of another one, by a table of its 256 numbers."""
        floats = (EVERY - x.quantizer.zero).astype(np.float32) * x.quantizer.scale
        quotients = np.asarray(function(floats), np.float32) / quantizer.scale
        table = np.clip(np.rint(np.nan_to_num(quotients, nan=-1e6)) + quantizer.zero, -SHIFT, SHIFT - 1)
        codes = Codes(quantizer, origin=x.origin, channels=x.channels, matrix=x.matrix)
        for layout, tensor in [*x.forms.items()] or [(PLAIN, self.form(x, PLAIN))]:
            names = [tensor, self.tensor(f"{name}/table", table.astype(np.int8))]
            codes.forms[layout] = self.emit("Int8Lookup", names, self.fresh(f"{name}/int8"))
        return codes

    # What follows an operator between floats.

    def tail(self, name: str) -> tuple[Quantizer, int, int, str] | None:
        """Find the quantizer of an operator's float result, behind it or behind Relu and Clip, which alone read it.

        Returns quantizer, least and most number, and the value's name, and takes these nodes as done; else None.
        """
        least, most, passed = -np.inf, np.inf, list[NodeProto]()
        while name not in self.outputs and len(self.readers[name]) == 1:
            node = self.readers[name][0]
            passed.append(node)
            if node.op_type == QUANTIZE and node.input[0] == name:
                quantizer = self.quantizer(node, 1)
                low, high = quantizer.bounds(least, most)
                self.done.update(map(id, passed))
                return quantizer, low, high, node.output[0]
            limits = self.limits(node)
            if limits is None:
                return None
            least, most = max(least, limits[0]), min(max(most, limits[0]), limits[1])
            name = node.output[0]
        return None

    def limits(self, node: NodeProto) -> tuple[float, float] | None:
        """Between which numbers a Relu or a Clip keeps its input; None for another node."""
        if node.op_type == "Relu":
            return 0.0, np.inf
        if node.op_type != "Clip":
            return None
        attrs, found = plain_node(node).attrs, []
        for position, (name, default) in enumerate((("min", -np.inf), ("max", np.inf)), 1):
            given: object = attrs.get(name, default)
            if position < len(node.input) and node.input[position]:
                name = node.input[position]
                if name in self.constants:
                    given = float(self.constants[name].floats.reshape(()))
                elif name in self.initializers:
                    given = float(to_array(self.initializers[name]).reshape(()))
                else:
                    return None
            if not isinstance(given, int | float):
                return None
            found.append(float(given))
        return found[0], found[1]

    # What the model declares of shapes.

    def rank(self, name: str, default: int) -> int:
        """The declared number of a value's axes, or a default."""
        shape = self.declared.get(name)
        return default if shape is None else len(shape)

    def declared_element(self, name: str) -> int:
        """ONNX's element type of an input of the model."""
        return int(self.inputs[name].type.tensor_type.elem_type)

    def same_shape(self, one: str, other: str) -> bool:
        """Whether nothing says that two values differ in shape."""
        a, b = self.declared.get(one), self.declared.get(other)
        return a is None or b is None or a == b

    def is_constant_matrix(self, product: NodeProto) -> bool:
        """Whether a product's second operand is a quantized matrix."""
        source = next((n for n in self.graph.node if product.input[1] in n.output), None)
        return source is not None and source.op_type == DEQUANTIZE and source.input[0] in self.initializers


Rule = Callable[[Packer, NodeProto], bool]
"""Compute a node in integers where that can be; returns whether it did."""
BETWEEN: dict[str, Rule] = {}
"""Rules of operators that a model computes between floats, or over 8 bits as they are."""
OVER: dict[str, Callable[[Packer, NodeProto], None]] = {}
"""Rules of operators over 8 bits, of ONNX and of its runtime."""


def between_borders(*operators: str) -> Callable[[Rule], Rule]:
    """Register a rule for operators between floats."""

    def known(rule: Rule) -> Rule:
        BETWEEN.update(dict.fromkeys(operators, rule))
        return rule

    return known


def over_eights(
    *operators: str,
) -> Callable[[Callable[[Packer, NodeProto], None]], Callable[[Packer, NodeProto], None]]:
    """Register a rule for operators over 8 bits."""

    def known(rule: Callable[[Packer, NodeProto], None]) -> Callable[[Packer, NodeProto], None]:
        OVER.update(dict.fromkeys(operators, rule))
        return rule

    return known
