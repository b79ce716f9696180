"""Valid forward models, drawn: operators from the registry with their samples, chained where the types allow it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import onnx
from onnx import helper, numpy_helper

from deployer.core.errors import DeployerError
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, file_of, registry
from deployer.core.samples import Sample
from deployer.testing.runtime import OPSET, as_in_file, as_input, gives_truths, version_of

from .draw import Draw

LARGEST = 4096
"""Elements of a value; a larger sample makes a slow input and no other one."""
Entry = tuple[Operator, Sample]


@cache
def entries(standard: bool) -> tuple[Entry, ...]:
    """Samples of all operators; of those whose form ONNX Runtime knows where `standard`."""
    rows = []
    for name, operator in registry().items():
        known = min(file_of(operator).versions, default=OPSET) <= OPSET
        for sample in operator.samples() if name == operator.name and known else ():
            small = all(x is None or np.size(x) <= LARGEST for x in sample.inputs)
            if small and (sample.onnx or not standard):
                rows.append((operator, sample))
    return tuple(rows)


@cache
def _by_operator(standard: bool) -> dict[str, tuple[Entry, ...]]:
    names = dict.fromkeys(op.name for op, _ in entries(standard))
    return {name: tuple(e for e in entries(standard) if e[0].name == name) for name in names}


@dataclass
class Chain:
    """A model under construction: `values` has what later nodes may read, `feeds` a value per graph input."""

    draw: Draw
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    values: dict[str, TensorType] = field(default_factory=dict)
    feeds: dict[str, Array] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    last: list[str] = field(default_factory=list)
    elements: dict[str, type[np.generic]] = field(default_factory=dict)

    def append(self, entry: Entry) -> None:
        """One node more; it reads the newest value where its operator takes that type."""
        operator, sample = entry
        at = len(self.nodes)
        arrays, linked = self._linked(operator, sample)
        version = version_of(operator)
        stored = [None if x is None else as_in_file(operator, version, i, x) for i, x in enumerate(arrays)]
        names = [self._operand(f"v{at}_{i}", x, i in linked) for i, x in enumerate(stored)]
        outputs = [f"o{at}_{i}" for i in range(sample.outputs)]
        node = Node(f"n{at}", operator.name, tuple(names), tuple(outputs), dict(sample.attrs))
        kinds = [self._type(x) for x in arrays]
        types = operator.infer(node, kinds)
        self.values.update(zip(outputs, types, strict=False))
        self.elements.update(dict.fromkeys(outputs, np.bool_) if gives_truths(operator) else {})
        few = any(x is not None and x.dtype == np.uint8 for x in stored)
        self.elements.update(dict.fromkeys(outputs, np.uint8) if few else {})
        self.last = outputs
        self.nodes.append(self._proto(operator, node, kinds))

    @staticmethod
    def _type(x: Array | None) -> TensorType | None:
        return None if x is None else TensorType(x.dtype.name, x.shape)

    def _linked(self, operator: Operator, sample: Sample) -> tuple[list[Array | None], set[int]]:
        """The operands' values, those of one shape retyped to the newest value's if the operator takes it."""
        arrays = [None if x is None else np.asarray(x) for x in sample.inputs]
        newest = self.values[self.last[0]] if self.last else None
        floats = [i for i, x in enumerate(arrays) if x is not None and x.dtype == np.float32]
        if newest is None or newest.dtype != "float32" or not floats or not newest.size:
            return arrays, set()
        shape = arrays[floats[0]].shape  # type: ignore[union-attr]
        changed = list(arrays)
        for i in floats:
            if arrays[i].shape == shape:  # type: ignore[union-attr]
                changed[i] = np.resize(arrays[i], newest.shape)  # type: ignore[arg-type]
        node = Node("try", operator.name, tuple(f"x{i}" for i in range(len(arrays))), ("y",), dict(sample.attrs))
        try:
            types = operator.infer(node, [self._type(x) for x in changed])
        except (DeployerError, IndexError, ValueError):
            return arrays, set()
        return (changed, {floats[0]}) if all(t.size <= LARGEST for t in types) else (arrays, set())

    def _operand(self, name: str, x: Array | None, linked: bool) -> str:
        if x is None:
            return ""
        if linked:
            return self.last[0]
        if self.draw.chance(0.5) or not self.feeds:
            self.feeds[name] = x
        else:
            self.constants[name] = x
        return name

    def _proto(self, operator: Operator, node: Node, types: Sequence[TensorType | None]) -> onnx.NodeProto:
        """The node as ONNX has it: attributes that this opset wants as inputs become constants."""
        attrs, names = dict(node.attrs), list(node.inputs)
        for position, attribute in file_of(operator).static_inputs.items():
            if attribute not in attrs:
                continue
            names += [""] * (position + 1 - len(names))
            names[position] = f"{node.name}_{attribute}"
            del attrs[attribute]
            self.constants[names[position]] = as_input(operator, node, types, attribute)
        domain = "" if onnx.defs.has(node.op) else "com.microsoft"
        return helper.make_node(node.op, names, node.outputs, node.name, domain=domain, **attrs)

    def _element(self, name: str) -> np.dtype:
        return np.dtype(self.elements.get(name, _wide(self.values[name].dtype)))

    def model(self) -> onnx.ModelProto:
        """The file."""
        read = {name for node in self.nodes for name in node.input}
        ends = [n for n in self.values if n not in read] or list(self.last)
        graph = helper.make_graph(
            self.nodes,
            "g",
            [_value(n, x.dtype, x.shape) for n, x in self.feeds.items()],
            [_value(n, self._element(n), self.values[n].shape) for n in ends],
            [numpy_helper.from_array(x, n) for n, x in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10, producer_name="fuzz")


def _wide(dtype: str) -> str:
    return "int64" if dtype == "int32" else dtype


def _value(name: str, dtype: np.dtype, shape: Sequence[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def chain(draw: Draw, longest: int = 5, standard: bool | None = None) -> Chain:
    """A chain of drawn operators, each operator as likely as another; custom operators seldom, or never."""
    nodes = Chain(draw)
    for _ in range(draw.number(1, longest)):
        supported = draw.chance(0.85) if standard is None else standard
        table = _by_operator(supported)
        nodes.append(draw.one(table[draw.one(sorted(table))]))
    return nodes
