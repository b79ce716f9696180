"""Samples of operators as models of one node, in the form of any version, and what others say that they mean."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import AttributeProto, TensorProto, helper, numpy_helper, version_converter
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    InvalidGraph,
    NotImplemented,
    RuntimeException,
)

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, file_of
from deployer.core.samples import Sample
from deployer.core.signatures import Signature, schema_signature
from deployer.frontend import check, parse
from deployer.testing.runtime import as_in_file, as_input
from deployer.verify.reference import run_inference

OLD_NAMES = {
    **{("Constant", version, name): "value" for version in (1, 9, 11) for name in ("value_int", "value_floats")},
    ("Pad", 1, "pads"): "paddings",
    ("Pad", 2, "constant_value"): "value",
    ("Pad", 1, "constant_value"): "value",
}
"""Attributes that a version of an operator has under another name than samples do."""
LAST_WITHOUT_KERNELS = 6
"""Opsets up to this one have no kernels of many operators in ONNX Runtime."""
_REFUSALS = (Fail, InvalidArgument, InvalidGraph, NotImplemented, RuntimeException)
REQUIRED: dict[str, AttrValue] = {"consumed_inputs": (0, 0)}
"""Values of attributes that a version demands and samples do not have."""


@dataclass(frozen=True, eq=False)
class FileNode:
    """One node as a file holds it: values of its inputs (empty name: absent), which of them are initializers."""

    op: str
    version: int
    inputs: tuple[str, ...]
    values: dict[str, Array]
    static: frozenset[str]
    outputs: int
    attrs: dict[str, AttrValue] = field(default_factory=dict)
    domain: str = ""

    def model(self, *imports: tuple[str, int]) -> onnx.ModelProto:
        """The node's model, with its own version of the default domain or with `imports`."""
        outputs = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op, self.inputs, outputs, "node", domain=self.domain)
        node.attribute.extend(attribute(name, value, self._kind(name)) for name, value in self.attrs.items())
        data = [n for n in self.inputs if n and n not in self.static]
        graph = helper.make_graph(
            [node],
            "one",
            [
                helper.make_tensor_value_info(
                    n, helper.np_dtype_to_tensor_dtype(self.values[n].dtype), self.values[n].shape
                )
                for n in data
            ],
            [helper.make_empty_tensor_value_info(outputs[0])],
            [numpy_helper.from_array(self.values[n], n) for n in self.inputs if n in self.static],
        )
        opsets = [helper.make_opsetid(domain, version) for domain, version in imports or (("", self.version),)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def _kind(self, name: str) -> str:
        return schema_signature(self.op, self.version).attributes.get(name, "") if self.version else ""

    def feed(self) -> dict[str, Array]:
        """The values of the graph's inputs."""
        return {n: self.values[n] for n in self.inputs if n and n not in self.static}


def attribute(name: str, value: AttrValue, kind: str = "") -> AttributeProto:
    """An attribute of a kind, where the value does not tell: a number may be a tensor of one element."""
    if kind == "TENSOR":
        array = np.asarray(value)
        return helper.make_attribute(name, numpy_helper.from_array(array.astype(_wide(array)).reshape(-1)))
    if kind == "STRING" and isinstance(value, int):  # version 1 of Cast has the name of a type
        value = TensorProto.DataType.Name(value)
    if kind == "FLOAT":  # a whole number in later versions
        value = float(value)  # type: ignore[arg-type]
    if kind.endswith("S") and not isinstance(value, tuple):
        value = (value,)  # type: ignore[assignment]
    return helper.make_attribute(name, value, attr_type=getattr(AttributeProto, kind) if kind else None)


def _wide(array: Array) -> type[np.generic]:
    return np.float32 if array.dtype.kind == "f" and array.size else np.int64


def file_node(operator: Operator, sample: Sample, version: int) -> FileNode | None:
    """The sample in the form of that version of the operator (0: its own), None where the version cannot say it."""
    form = file_of(operator).custom if version == 0 else schema_signature(operator.name, version)
    assert form is not None
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(sample.inputs)]
    given = [(i, np.asarray(x)) for i, x in enumerate(sample.inputs) if x is not None]
    values = {names[i]: as_in_file(operator, version, i, x) for i, x in given}
    values |= {names[i]: x for i, x in given if x.dtype == np.uint8 and version == 0}
    eights = {names[i] for i, x in given if x.dtype == np.int8 and version == 0}  # which no input of a model holds
    attrs, static = dict(sample.attrs), eights
    plain = Node("node", operator.name, tuple(names), ("y",) * sample.outputs, dict(attrs))
    types = [None if x is None else TensorType(np.asarray(x).dtype.name, np.shape(x)) for x in sample.inputs]
    for position, name in file_of(operator).static_inputs.items():
        if name in attrs and form.inputs[1] > position and name not in form.attributes:
            names += [""] * (position + 1 - len(names))
            names[position] = name
            values[name] = as_input(operator, plain, types, name)
            del attrs[name]
            static.add(name)
    for position in form.needed.intersection(range(len(names))):
        if not names[position]:  # later versions leave it out where it says nothing
            names[position] = f"nothing{position}"
            values[names[position]] = np.zeros(0, np.float32)
            static.add(names[position])
    attrs = {OLD_NAMES.get((operator.name, version, name), name): value for name, value in attrs.items()}
    attrs |= {name: REQUIRED[name] for name in form.required if name in REQUIRED}
    if not _says(form, names, attrs, sample.outputs):
        return None
    return FileNode(operator.name, version, tuple(names), values, frozenset(static), sample.outputs, attrs)


def _says(form: Signature, names: list[str], attrs: dict[str, AttrValue], outputs: int) -> bool:
    fits = form.inputs[0] <= len(names) <= form.inputs[1] and form.outputs[0] <= outputs <= form.outputs[1]
    return fits and set(attrs) <= set(form.attributes) and form.required <= set(attrs)


def variants(node: FileNode, most: int) -> Iterator[FileNode]:
    """The node, then with attributes left out, and with up to `most` flags or axes of its version set to 0 and 1."""
    form = schema_signature(node.op, node.version)
    yield node
    for name in sorted(set(node.attrs) - form.required):
        yield replace(node, attrs={n: v for n, v in node.attrs.items() if n != name})
    free = sorted(name for name, kind in form.attributes.items() if kind == "INT" and name != "seed")
    for count in range(1, most + 1):
        for names in itertools.combinations(free, count):
            for bits in itertools.product((0, 1), repeat=count):
                attributes = {**node.attrs, **dict(zip(names, bits, strict=True))}
                if attributes != node.attrs:
                    yield replace(node, attrs=attributes)


def ours(model: onnx.ModelProto, feed: dict[str, Array], folder: Path) -> Array:
    """The first output of the compiler's own meaning of a model."""
    path = folder / "network.onnx"
    path.write_bytes(model.SerializeToString())
    program = check.check_program(parse.read_graphs(path, None))
    return run_inference(program, feed)[program.outputs[0]]


def theirs(node: FileNode) -> Array | None:
    """The first output by ONNX Runtime, else by ONNX's reference evaluator, else by these of the converted model.

    They get the version's own floats where the node has none: evaluators fall back to those of the newest version.
    """
    node = replace(node, attrs=_defaults(node) | node.attrs)
    judgement = _judged(node.model(), node.feed())
    if judgement is not None or node.version > LAST_WITHOUT_KERNELS:
        return judgement
    attrs = {name: value for name, value in node.attrs.items() if name != "consumed_inputs"}
    try:
        model = replace(node, attrs=attrs).model(("", LAST_WITHOUT_KERNELS))
        return _judged(version_converter.convert_version(model, LAST_WITHOUT_KERNELS + 2), node.feed())
    except (RuntimeError, version_converter.ConvertError):
        return None


def _defaults(node: FileNode) -> dict[str, AttrValue]:
    """The default of each float among the attributes of the node's version."""
    if node.domain or not node.version:
        return {}
    schema = onnx.defs.get_schema(node.op, node.version, "")
    defaults = {name: attribute.default_value for name, attribute in schema.attributes.items()}
    return {name: value.f for name, value in defaults.items() if value.type == AttributeProto.FLOAT}


def _judged(model: onnx.ModelProto, feed: dict[str, Array]) -> Array | None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        return np.asarray(session.run(None, feed)[0])
    except _REFUSALS:
        pass
    try:
        return np.asarray(ReferenceEvaluator(model).run(None, feed)[0])
    except (ValueError, TypeError, RuntimeError, NotImplementedError, IndexError, AttributeError):
        return None
