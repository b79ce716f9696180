"""Rewrite of a quantized model: operators of 8 bits with the channels innermost, and constants packed for them.

ONNX has two formats. QDQ puts QuantizeLinear and DequantizeLinear around operators of floats; QOperator has operators
of 8 bits, such as QLinearConv. A QDQ operator becomes one of integers if a rule computes it so, else it stays float.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

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
    NUMBERS,
    OFFSET,
    PLAIN,
    Layout,
    QuantizedConstant,
    QuantizedValue,
    Quantizer,
    along_axis,
    plain_node,
    refused,
)
from deployer.operators.quantized.conversion import number_operator

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
ONNX_DOMAINS = ("", "ai.onnx")
PER_TENSOR = "one scale and zero for the whole tensor; weights may have some for each channel"
Attributes = Mapping[str, int | float | Sequence[int]]
NONE: Attributes = {}
MOVES = ("Flatten", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Identity")
"""Operators that keep each number, and its scale."""
KEEPING_NUMBERS = ("MaxPool", *MOVES)
"""Operators that take numbers of 8 bits as they are."""


class Result(NamedTuple):
    """Result of an operator of 8 bits: its quantizer, the numbers between which it is clipped, and its name."""

    quantizer: Quantizer
    low: int
    high: int
    name: str


class Packer:
    """State of one rewrite: values met so far, and the nodes and constants of the new model."""

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
        self.new_initializers = list[TensorProto]()
        self.quantized: dict[str, QuantizedValue] = {}
        """Values by the names of their 8-bit tensors in the model."""
        self.dequantized: dict[str, QuantizedValue] = {}
        """Values by the names of the floats that they stand for."""
        self.constants: dict[str, QuantizedConstant] = {}
        """Constants by the names of the floats that they stand for."""
        self.readers: dict[str, list[NodeProto]] = defaultdict(list)
        for node in graph.node:
            for name in reads(node):
                self.readers[name].append(node)
        self.opset = max([entry.version for entry in model.opset_import if entry.domain in ONNX_DOMAINS] or [1])
        self.declared: dict[str, tuple[int | str, ...]] = {}
        for info in (*graph.value_info, *graph.input, *graph.output):
            if info.type.HasField("tensor_type") and info.type.tensor_type.HasField("shape"):
                dims = info.type.tensor_type.shape.dim
                self.declared[info.name] = tuple(d.dim_param or d.dim_value for d in dims)
        self.outputs = {value.name for value in graph.output}
        self.inputs = {value.name: value for value in graph.input if value.name not in self.initializers}
        self.absorbed: set[int] = set()
        """Nodes that others compute, by identity."""
        self.available = {*self.inputs, *(t.name for t in graph.initializer)}
        """Tensors that the new model has."""

    def finish(self) -> None:
        """Put the new nodes, and the constants that they read, into the model."""
        for name in [v.name for v in self.graph.output]:
            self.materialize(name, None)
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)
        used = {name for node in self.nodes for name in reads(node)} | self.outputs
        kept = [t for t in (*self.graph.initializer, *self.new_initializers) if t.name in used]
        del self.graph.initializer[:]
        self.graph.initializer.extend(kept)
        values = [v for v in self.graph.value_info if v.name in used]
        del self.graph.value_info[:]
        self.graph.value_info.extend(values)
        if not any(entry.domain == MICROSOFT for entry in self.model.opset_import):
            self.model.opset_import.append(helper.make_opsetid(MICROSOFT, 1))

    # Constants and values that nodes read.

    def array(self, node: NodeProto, position: int) -> Array | None:
        """Constant input of a node; None if there is none. UnsupportedOperator for one that is computed."""
        name = node.input[position] if position < len(node.input) else ""
        if not name:
            return None
        if name not in self.initializers:
            raise refused(node, f"its input {position} ({name!r}) is computed at run time", "a constant")
        try:
            return to_array(self.initializers[name])
        except (ValueError, TypeError) as error:
            raise refused(node, f"its input {position} ({name!r}) is damaged: {error}", "a constant") from None

    def integers(self, node: NodeProto, position: int) -> tuple[int, ...]:
        """Integers of a constant input; none where it is absent, or computed."""
        name = node.input[position] if position < len(node.input) else ""
        array = self.array(node, position) if name in self.initializers else None
        return () if array is None else tuple(map(int, array.reshape(-1)))

    def element(self, node: NodeProto, position: int) -> int:
        """ONNX's element type of a constant input; of an absent zero point that of the value of 8 bits that the node
        reads, or that it says to write, or UINT8.
        """
        name = node.input[position] if position < len(node.input) else ""
        if name in self.initializers:
            return int(self.initializers[name].data_type)
        value, given = self.quantized.get(node.input[0]), self.inputs.get(node.input[0])
        if value is not None:
            return int(TensorProto.UINT8 if value.quantizer.unsigned else TensorProto.INT8)
        if given is not None and given.type.tensor_type.elem_type in EIGHT_BITS:
            return int(given.type.tensor_type.elem_type)
        said = plain_node(node).attrs.get("output_dtype", 0)
        return int(said) if isinstance(said, int) and said else int(TensorProto.UINT8)

    def quantizer(self, node: NodeProto, position: int) -> Quantizer:
        """Quantizer of a node's scale at this position and the zero behind it."""
        scales, zeros, unsigned = self._scales(node, position)
        if scales.size != 1 or zeros.size != 1:
            raise refused(node, f"its scale has {scales.size} numbers", PER_TENSOR)
        return Quantizer(np.float32(scales.reshape(())), int(zeros.reshape(())), unsigned)

    def _scales(self, node: NodeProto, position: int) -> tuple[Array, Array, bool]:
        """Scales at a position, the zeros behind them as those of signed numbers, and whether these are unsigned."""
        scales, zeros = self.array(node, position), self.array(node, position + 1)
        element = self.element(node, position + 1)
        if element not in EIGHT_BITS:
            raise refused(node, f"its numbers are of {TensorProto.DataType.Name(element)}", "INT8 or UINT8")
        scales = _checked(node, scales)
        unsigned = element == TensorProto.UINT8
        zeros = np.zeros(scales.shape, np.int64) if zeros is None else zeros.astype(np.int64)
        return scales, zeros - OFFSET * unsigned, unsigned

    def constant(self, node: NodeProto, position: int, axis: int) -> QuantizedConstant:
        """Constant whose numbers, scales and zeros are a node's inputs from this position on."""
        numbers, scales, zeros = (self.array(node, position + i) for i in range(3))
        element = self.element(node, position)
        if numbers is None or element not in (*EIGHT_BITS, TensorProto.INT32):
            raise refused(node, f"its constant is of {TensorProto.DataType.Name(element)}", "INT8, UINT8 or INT32")
        scales = _checked(node, scales)
        if zeros is None:
            zeros = np.zeros(scales.shape, np.int64)
        shift = OFFSET * (element == TensorProto.UINT8)
        axis = _axis(node, numbers, (scales, zeros), axis)
        wide = numbers.astype(np.int64) - shift
        return QuantizedConstant(wide, scales.reshape(-1), zeros.astype(np.int64).reshape(-1) - shift, axis)

    def value(self, name: str) -> QuantizedValue | None:
        """Value of 8 bits that a tensor of the model holds or stands for."""
        return self.quantized.get(name) or self.dequantized.get(name) or self._given(name)

    def has_quantized_input(self, node: NodeProto) -> bool:
        """Whether a node's first input is a value of 8 bits."""
        return bool(node.input) and self.value(node.input[0]) is not None

    def operand(self, node: NodeProto, position: int) -> QuantizedValue:
        """Value whose 8-bit tensor, scale and zero are a node's inputs from this position on.

        UnsupportedOperator if that is no value of 8 bits, or another scale or zero has made it.
        """
        name, quantizer = node.input[position], self.quantizer(node, position + 1)
        value = self.quantized.get(name) or self._given(name)
        if value is None:
            raise refused(node, f"its input {name!r} is no value of 8 bits", "a QuantizeLinear before it")
        made = value.quantizer
        if made != quantizer:
            cause = f"it takes {name!r} by another scale or zero than made it"
            raise refused(node, cause, f"scale {made.scale:g} and zero {made.zero + OFFSET * made.unsigned}")
        return value

    # Nodes, constants and tensors of the new model.

    def add_constant(self, base: str, array: Array) -> str:
        """Add a constant; returns its name."""
        name = self.names.fresh(base)
        self.new_initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def emit(self, op: str, inputs: Sequence[str], output: str, attrs: Attributes = NONE) -> str:
        """Append a node of 8 bits; returns its output."""
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
        """Name for a tensor that the model does not have."""
        return self.names.fresh(base)

    def tensor_of(self, value: QuantizedValue, layout: Layout) -> str:
        """The 8-bit tensor of a value in a layout; quantizes its floats if there is none yet."""
        if layout not in value.tensors:
            value.tensors[layout] = self._converted(value, layout)
        return value.tensors[layout]

    def _converted(self, value: QuantizedValue, layout: Layout) -> str:
        """A new tensor of a value in a layout; an input that is signed numbers is its own plain tensor."""
        images = layout != PLAIN
        if value.given:
            op, source = number_operator(images, value.quantizer.unsigned), value.given
            return self.emit(op, [source], self.fresh(f"{source}/int8")) if op else source
        source = value.source or self.float_of(value)
        op = "QuantizeInt8Images" if images else "QuantizeInt8"
        return self.emit(op, [source], self.fresh(f"{source}/int8"), _scaling(value))

    def float_of(self, value: QuantizedValue, output: str = "") -> str:
        """A tensor with the floats that a value stands for, of the name `output` if that is given."""
        if value.exact:
            return self.emit_float("Identity", [value.source], output) if output else value.source
        if not value.tensors:
            self.tensor_of(value, PLAIN)
        layout, name = next(iter(value.tensors.items()))
        base = output or self.fresh(f"{name}/float")
        if value.images is not None:
            shape = self.add_constant(f"{base}/shape", np.array([0, -1], np.int64))
            return self.emit_float("Reshape", [self.float_of(value.images), shape], base)
        if isinstance(layout, int):
            return self.emit("DequantizeInt8Images", [name], base, {**_scaling(value), "axes": layout})
        return self.emit("DequantizeInt8", [name], base, _scaling(value))

    def materialize(self, name: str, reader: NodeProto | None) -> None:
        """Make a float tensor of the model that a node, or the model's output, reads."""
        if name in self.available:
            return
        if name in self.constants:
            self.new_initializers.append(numpy_helper.from_array(self.constants[name].floats, name))
        elif name in self.dequantized:
            self.float_of(self.dequantized[name], name)
        elif name in self.quantized and reader is None:
            cause = f"the output {name!r} has 8 bits, and the program's results are floats"
            raise GraphProblem(cause, hint="a DequantizeLinear behind it")
        elif name in self.quantized and reader is not None:
            raise refused(reader, f"it reads {name!r}, which has 8 bits", "an operator of 8 bits, or DequantizeLinear")
        else:
            return
        self.available.add(name)

    def keep(self, node: NodeProto) -> None:
        """Append a node of the model as it is."""
        for name in reads(node):
            self.materialize(name, node)
        self.nodes.append(node)

    # QuantizeLinear and DequantizeLinear.

    def quantize(self, node: NodeProto) -> None:
        """Read a QuantizeLinear; its value is computed where something reads it."""
        source, result = node.input[0], node.output[0]
        if source in self.initializers:
            constant = self.initializers[result] = self._quantized_constant(node)
            self.new_initializers.append(constant)
            self.available.add(result)
            return
        quantizer, before = self.quantizer(node, 1), self.dequantized.get(source)
        if before is not None and before.quantizer == quantizer:
            self.quantized[result] = before
        elif before is not None and (before.tensors or before.given):
            self.quantized[result] = self.lookup(before, quantizer, lambda x: x, result)
        else:
            self.materialize(source, node)
            self.quantized[result] = QuantizedValue(quantizer, source=source, rank=self.rank(source, 0))

    def _quantized_constant(self, node: NodeProto) -> TensorProto:
        """Numbers of a float constant, which QuantizeLinear makes of it, in their own type."""
        floats, (scales, zeros, unsigned) = self.array(node, 0), self._scales(node, 1)
        if floats is None or floats.dtype.kind != "f":
            raise refused(node, "its constant is no tensor of floats", "floats")
        axis = plain_node(node).attrs.get("axis", 1)
        axis = _axis(node, floats, (scales, zeros), axis if isinstance(axis, int) else 1)
        scales, zeros = (along_axis(x.reshape(-1), floats.ndim, axis) for x in (scales, zeros))
        whole = np.rint(floats.astype(np.float32) / scales) + zeros
        signed = np.clip(whole, -OFFSET, OFFSET - 1).astype(np.int64)
        numbers = (signed + OFFSET).astype(np.uint8) if unsigned else signed.astype(np.int8)
        return numpy_helper.from_array(numbers, node.output[0])

    def dequantize(self, node: NodeProto) -> None:
        """Read a DequantizeLinear; its floats are computed where something reads them."""
        name, result = node.input[0], node.output[0]
        attrs, value = plain_node(node).attrs, self.quantized.get(name) or self._given(name)
        is_constant = name in self.initializers and node.input[1] in self.initializers
        if attrs.get("block_size") and (value is not None or is_constant):
            raise refused(node, f"block_size is {attrs['block_size']}", PER_TENSOR)
        if is_constant:
            axis = attrs.get("axis", 1)
            self.constants[result] = self.constant(node, 0, axis if isinstance(axis, int) else 1)
        elif value is not None:
            self.dequantized[result] = self.operand(node, 0)
        else:
            self.keep(node)  # its operator takes integers of any origin, and scales that are computed
            self.available.add(result)
            if self._is_input_of_8_bits(name) and node.input[1] in self.initializers:
                rank = self.rank(name, 0)
                self.dequantized[result] = QuantizedValue(self.quantizer(node, 1), source=result, exact=True, rank=rank)

    def _is_input_of_8_bits(self, name: str) -> bool:
        return name in self.inputs and self.inputs[name].type.tensor_type.elem_type in EIGHT_BITS

    def _given(self, name: str) -> QuantizedValue | None:
        """Value that an input of 8 bits holds; None where something else than operators of 8 bits reads it, or where
        they take it by several scales or zeros.
        """
        if not self._is_input_of_8_bits(name):
            return None
        found = self._takers(name)
        if len(found) != 1 or None in found:
            return None
        quantizer = next(x for x in found if x is not None)
        self.quantized[name] = QuantizedValue(quantizer, given=name, rank=self.rank(name, 0))
        return self.quantized[name]

    def _takers(self, first: str) -> set[Quantizer | None]:
        """The scales and zeros by which nodes take numbers of 8 bits, also behind nodes that keep them; None stands
        for a node that takes them by none.
        """
        found, names = set[Quantizer | None](), [first]
        for name in names:
            for node in self.readers[name]:
                places = [place for place, given in enumerate(node.input) if given == name]
                if node.op_type in KEEPING_NUMBERS and places == [0] and node.domain in ONNX_DOMAINS:
                    names += [output for output in node.output if output not in names]
                    continue
                known = node.op_type == DEQUANTIZE or node.op_type in QOPERATOR_RULES
                scales = self.array(node, 1) if node.op_type == DEQUANTIZE else None
                constant = all(set(node.input[p + 1 : p + 2]) <= self.initializers.keys() for p in places)
                if not known or not constant or (scales is not None and scales.size != 1):
                    return {None}
                found.update(self.quantizer(node, place + 1) for place in places)
        return found

    def lookup(
        self, x: QuantizedValue, quantizer: Quantizer, function: Callable[[Array], Array], name: str
    ) -> QuantizedValue:
        """Value that is a function of another one: a table of its 256 results."""
        table = self.add_constant(f"{name}/table", quantizer.quantized(function(x.quantizer.dequantized(NUMBERS))))
        if not x.tensors:
            self.tensor_of(x, PLAIN)
        tensors = {
            layout: self.emit("Int8Lookup", [tensor, table], self.fresh(f"{name}/int8"))
            for layout, tensor in x.tensors.items()
        }
        images = None if x.images is None else self.lookup(x.images, quantizer, function, name)
        return QuantizedValue(quantizer, tensors, images=images, channels=x.channels, rank=x.rank)

    # Nodes behind a QDQ operator.

    def following_quantizer(self, name: str) -> Result | None:
        """Result of a QDQ operator: find the QuantizeLinear behind it, or behind Relu and Clip, that alone reads it.

        Absorbs these nodes; None if something else reads a value in between.
        """
        least, most, passed = -np.inf, np.inf, list[NodeProto]()
        while name not in self.outputs and len(self.readers[name]) == 1:
            node = self.readers[name][0]
            passed.append(node)
            if node.op_type == QUANTIZE and node.input[0] == name:
                quantizer = self.quantizer(node, 1)
                low, high = map(int, quantizer.quantized(np.array([least, most])))
                self.absorbed.update(map(id, passed))
                return Result(quantizer, low, high, node.output[0])
            limits = limits_of(node, self._number)
            if limits is None:
                return None
            least, most = max(least, limits[0]), min(max(most, limits[0]), limits[1])
            name = node.output[0]
        return None

    def _number(self, name: str) -> float | None:
        """The one number of a constant; None for a value that is computed."""
        if name in self.constants:
            return float(self.constants[name].floats.reshape(()))
        return float(to_array(self.initializers[name]).reshape(())) if name in self.initializers else None

    # Shapes that the model declares.

    def rank(self, name: str, default: int) -> int:
        """Declared number of a value's axes, or a default."""
        shape = self.declared.get(name)
        return default if shape is None else len(shape)

    def rank_of(self, name: str, x: QuantizedValue) -> int:
        """Number of a value's axes, by what made it or by the declaration of the tensor that is read; 0 if unknown."""
        return x.rank or self.rank(name, 0) or self.rank(x.source, 0)

    def may_have_one_shape(self, one: str, other: str) -> bool:
        """Whether two values have one shape as far as the model declares shapes."""
        a, b = self.declared.get(one), self.declared.get(other)
        return a is None or b is None or a == b

    def is_constant_matrix(self, product: NodeProto) -> bool:
        """Whether the second operand of a product is a quantized constant."""
        source = next((n for n in self.graph.node if product.input[1] in n.output), None)
        return source is not None and source.op_type == DEQUANTIZE and source.input[0] in self.initializers


def limits_of(node: NodeProto, number: Callable[[str], float | None]) -> tuple[float, float] | None:
    """Range of a Relu or a Clip; None for another node, or limits that are computed. `number` reads a constant."""
    if node.op_type == "Relu":
        return 0.0, np.inf
    if node.op_type != "Clip":
        return None
    attrs, found = plain_node(node).attrs, []
    for position, (name, default) in enumerate((("min", -np.inf), ("max", np.inf)), 1):
        given: object = attrs.get(name, default)
        if position < len(node.input) and node.input[position]:
            given = number(node.input[position])
        if not isinstance(given, int | float):
            return None
        found.append(float(given))
    return found[0], found[1]


def _scaling(value: QuantizedValue) -> Attributes:
    return {"scale": float(value.quantizer.scale), "zero": value.quantizer.zero}


def _checked(node: NodeProto, scales: Array | None) -> Array:
    """Scales in float32; UnsupportedOperator if there are none, or one is not above zero."""
    listed = scales is not None and (scales.ndim < 2 or scales.size == 1)
    if scales is None or not listed or not (np.isfinite(scales).all() and (scales > 0).all()):
        raise refused(node, "a scale of it is not above zero", "finite scales above zero, one or one per channel")
    return scales.astype(np.float32)


def _axis(node: NodeProto, numbers: Array, each: Sequence[Array], axis: int) -> int:
    """The axis of channels from the front; UnsupportedOperator if scales or zeros do not fit it."""
    axis = axis % max(numbers.ndim, 1)
    length = numbers.shape[axis] if numbers.ndim else 1
    if any(array.size not in (1, length) for array in each):
        sizes = " and ".join(str(array.size) for array in each)
        raise refused(node, f"its constant has {sizes} scales and zeros along axis {axis}", "one, or one per channel")
    return axis


Rule = Callable[[Packer, NodeProto], bool]
"""Rule of a QDQ operator: compute it in integers if that can be; returns whether it did."""
QOperatorRule = Callable[[Packer, NodeProto], None]
"""Rule of an operator of 8 bits."""
QDQ_RULES: dict[str, Rule] = {}
"""Rules of ONNX's operators between DequantizeLinear and QuantizeLinear, or on 8-bit tensors as they are."""
QOPERATOR_RULES: dict[str, QOperatorRule] = {}
"""Rules of operators of 8 bits, of ONNX and of its runtime."""


def qdq_rule(*operators: str) -> Callable[[Rule], Rule]:
    """Register a rule for operators of the QDQ format."""

    def register(rule: Rule) -> Rule:
        QDQ_RULES.update(dict.fromkeys(operators, rule))
        return rule

    return register


def qoperator_rule(*operators: str) -> Callable[[QOperatorRule], QOperatorRule]:
    """Register a rule for operators of the QOperator format."""

    def register(rule: QOperatorRule) -> QOperatorRule:
        QOPERATOR_RULES.update(dict.fromkeys(operators, rule))
        return rule

    return register
