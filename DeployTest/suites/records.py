"""Results recorded with ONNX's node tests that are themselves further from the model's meaning than the tests allow.

What a model means is what onnx's own reference evaluator makes of it where every float is of 64 bits. A test is
admitted to the list here by name, and counts as one only where its record is off and what was computed is not.
"""

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

from deployer.core.operator import Array

HALF = "onnx computed it by numpy in float16, rounded after each operation"
INEXACT_RECORDS = dict.fromkeys(
    ("test_attention_4d_gqa_with_past_and_present_fp16", "test_attention_4d_gqa_with_past_and_present_fp16_expanded"),
    HALF,
)
"""Tests by name, and why the record is off."""
NARROW = (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT)


def meaning(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs of a model, in their order, by onnx's reference evaluator in float64."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    graph = wide.graph
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type in NARROW:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    attributes = [attribute for node in graph.node for attribute in node.attribute]
    for tensor in (*graph.initializer, *(a.t for a in attributes if a.type == AttributeProto.TENSOR)):
        if tensor.data_type in NARROW:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    for attribute in attributes:
        if attribute.name == "to" and attribute.i in NARROW:
            attribute.i = TensorProto.DOUBLE
    arrays = {n: x.astype(np.float64) if x.dtype.kind == "f" else x for n, x in inputs.items()}
    return [np.asarray(x) for x in ReferenceEvaluator(wide).run(None, arrays)]  # type: ignore[union-attr]


def distance(array: Array, exact: Array, rtol: float, atol: float) -> float:
    """Return the distance of an array from the exact one, as a share of the bound; 1 is the most."""
    allowed = atol + rtol * np.abs(exact)
    return float((np.abs(array.astype(np.float64).reshape(exact.shape) - exact) / allowed).max(initial=0.0))
