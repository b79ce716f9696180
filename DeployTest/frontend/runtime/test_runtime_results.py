"""Operators of ONNX Runtime's training graphs against the results that its own kernels gave.

`DeployTest/artifacts/operator_results.py` made runtime_results.npz by ONNX Runtime's last training wheel.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from deployer.core.ir import AttrValue, GraphNames, Node, TensorType
from deployer.core.operator import Array, file_of, registry
from deployer.operators.update.accumulation import by_norm
from deployer.testing.gradients import evaluate
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host, pytest.mark.kernels]
with np.load(Path(__file__).with_name("runtime_results.npz")) as _file:
    ARRAYS: dict[str, Array] = dict(_file)
LABELS = [name.removesuffix("/node") for name in ARRAYS if name.endswith("/node")]
LIMITS = sorted({name.split("/")[1] for name in ARRAYS if name.startswith("clip/")})


def _node(label: str) -> tuple[Node, list[Array | None], dict[int, Array]]:
    """A case as a node whose static inputs are attributes, its inputs, and the outputs of ONNX Runtime."""
    form = json.loads(str(ARRAYS[f"{label}/node"]))
    operator = registry()[form["op"]]
    inputs = [ARRAYS.get(f"{label}/in{i}") for i in range(form["inputs"])]
    attrs: dict[str, AttrValue] = {k: v for k, v in form["attrs"].items()}
    for position, attribute in file_of(operator).static_inputs.items():
        value = inputs[position] if position < len(inputs) else None
        if value is not None:
            attrs[attribute] = tuple(value.reshape(-1).tolist())
            inputs[position] = None
    names = tuple(f"x{i}" if x is not None else "" for i, x in enumerate(inputs))
    while names and not names[-1]:
        names = names[:-1]
    outputs = tuple(f"y{i}" for i in range(form["outputs"]))
    narrow = [x if x is None or x.dtype.kind == "f" else x.astype(np.int32) for x in inputs[: len(names)]]
    results = {i: ARRAYS[f"{label}/out{i}"] for i in range(form["outputs"]) if f"{label}/out{i}" in ARRAYS}
    return Node(label, operator.name, names, outputs, attrs), narrow, results


@pytest.mark.parametrize("label", LABELS)
def test_reference_is_of_onnx_runtime(label: str) -> None:
    """Every output of the operator's meaning, and of the nodes that it is lowered to, is within its tolerance."""
    node, inputs, expected = _node(label)
    operator = registry()[node.op]
    results = operator.reference(node, inputs)
    assert expected
    for position, array in expected.items():
        assert_close(node.op, results[position], array.astype(results[position].dtype))
    types = [None if x is None else TensorType(x.dtype.name, x.shape) for x in inputs]
    lowered = operator.lower(node, types)
    if lowered is not None:
        values = evaluate(lowered, {n: x for n, x in zip(node.inputs, inputs, strict=True) if n and x is not None})
        for position, array in expected.items():
            result = values[node.outputs[position]]
            assert_close(node.op, result, array.astype(result.dtype))


@pytest.mark.parametrize("label", LIMITS)
def test_limit_of_all_gradients_is_of_onnx_runtime(label: str) -> None:
    """Nodes in the place of InplaceClipGradNorm give what it does, with a norm beyond the limit and within."""
    count = sum(name.startswith(f"clip/{label}/in") for name in ARRAYS)
    weights = {f"w{i}": f"g{i}" for i in range(count)}
    nodes, scaled = by_norm(weights, float(ARRAYS[f"clip/{label}/limit"]), GraphNames(set()).fresh)
    values = evaluate(nodes, {f"g{i}": ARRAYS[f"clip/{label}/in{i}"] for i in range(count)})
    for i in range(count):
        assert_close("limited gradients", values[scaled[f"w{i}"]], ARRAYS[f"clip/{label}/out{i}"])
