"""The score on ONNX's node tests: it stands in the docs as it is, nothing is wrong, and the harness can tell."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from deployer.codegen import generate
from DeployTest.suites.onnx_nodes import (
    CONSTANTS,
    DOCUMENT,
    INEXACT,
    MARKS,
    PASSED,
    REFUSED,
    UNFORESEEN,
    WRONG,
    NodeTest,
    Suite,
    compared,
    document,
    run,
    with_constants,
)
from DeployTest.suites.records import HALF, INEXACT_RECORDS, meaning
from DeployTest.suites.refusals import GROUPS, OTHER, group_of, table
from DeployTest.support.documents.pages import generated

pytestmark = [pytest.mark.host, pytest.mark.models]


def node_test(name: str, op: str, inputs: dict[str, np.ndarray], output: np.ndarray) -> NodeTest:
    """A test of one node with output y."""
    kinds = [onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
             for n, x in inputs.items()]  # fmt: skip
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, output.shape)
    graph = onnx.helper.make_graph([onnx.helper.make_node(op, list(inputs), ["y"])], name, kinds, [y])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    return NodeTest(name, model, inputs, {"y": output}, 1e-3, 1e-7)


X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
RIGHT = node_test("right", "Relu", {"x": X}, np.maximum(X, np.float32(0)))


@pytest.fixture
def suite(tmp_path: Path) -> Iterator[Suite]:
    """A suite in a folder of its own."""
    return Suite(tmp_path)


def test_outcomes(suite: Suite) -> None:
    """Several tests in one program: a wrong result is one's own, and of a list of axes a constant is made."""
    wrong = replace(RIGHT, name="wrong", outputs={"y": RIGHT.outputs["y"] + np.float32(1e-2)})
    axes = {"x": X, "axes": np.array([1], np.int64)}
    summed = node_test("summed", "ReduceSum", axes, X.sum(axis=1, keepdims=True))
    missing = suite.accepted(node_test("missing", "Det", {"x": X[:, :2]}, X[0, 0]))
    assert (missing.outcome, missing.reason) == (REFUSED, "node (Det): there is no such operator")  # type: ignore[union-attr]
    taken = [suite.accepted(test) for test in (RIGHT, wrong, summed)]
    assert [test.name for test in taken if isinstance(test, NodeTest)] == ["right", "wrong", "summed"]
    assert with_constants(RIGHT) is None
    outcomes = list(suite.judged(taken))  # type: ignore[arg-type]
    assert [o.outcome for o in outcomes] == [PASSED, WRONG, CONSTANTS]
    assert "'y' is off by up to 0.01" in outcomes[1].reason


def test_inexact_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listed record counts apart only where it is off and the result is not; the tolerances are the test's own."""
    right, off = RIGHT.outputs, {"y": RIGHT.outputs["y"] + np.float32(1e-2)}
    assert compared(replace(RIGHT, outputs=off), right).outcome == WRONG
    monkeypatch.setitem(INEXACT_RECORDS, RIGHT.name, HALF)
    assert compared(RIGHT, right).outcome == PASSED
    assert compared(replace(RIGHT, outputs=off), right).outcome == INEXACT
    assert compared(RIGHT, off).outcome == WRONG
    assert compared(replace(RIGHT, outputs=off), {"y": off["y"] + np.float32(1e-2)}).outcome == WRONG
    nan = {"y": np.full_like(right["y"], np.nan)}
    assert compared(replace(RIGHT, outputs=off), nan).outcome == WRONG


def test_meaning_is_in_float64() -> None:
    """Operands, constants and casts of half precision are of 64 bits."""
    third = onnx.numpy_helper.from_array(np.array([1 / 3], np.float16), "third")
    nodes = [
        onnx.helper.make_node("Div", ["x", "third"], ["q"]),
        onnx.helper.make_node("Cast", ["q"], ["y"], to=onnx.TensorProto.FLOAT16),
    ]
    x, y = (onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT16, [3]) for n in "xy")
    graph = onnx.helper.make_graph(nodes, "halves", [x], [y], [third])
    values = np.array([0.1, 0.2, 0.3], np.float16)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    [result] = meaning(model, {"x": values})
    assert result.dtype == np.float64
    assert np.array_equal(result, values.astype(np.float64) / np.float64(np.float16(1 / 3)))


def test_folded(suite: Suite) -> None:
    """A result that depends on the shapes alone is no computation of generated C."""
    test = node_test("shape", "Shape", {"x": X}, np.array([2, 3], np.int64))
    test.model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    taken = suite.accepted(test)
    assert (taken.outcome, taken.reason[:10]) == (REFUSED, "its result")  # type: ignore[union-attr]


def test_an_exception_is_a_finding(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the test that raises it, not of those that shared its program."""
    other, real = replace(RIGHT, name="other"), generate.generate_files

    def planted(plan):  # type: ignore[no-untyped-def]
        if any(step.op == "Exp" for step in plan.steps):
            raise ZeroDivisionError("planted")
        return real(plan)

    monkeypatch.setattr(generate, "generate_files", planted)
    exp = node_test("exp", "Exp", {"x": X}, np.exp(X))
    outcomes = {o.test: o.outcome for o in suite.judged([RIGHT, other, exp])}
    assert outcomes == {"right": PASSED, "other": PASSED, "exp": UNFORESEEN}


@pytest.mark.slow
def test_score(tmp_path: Path) -> None:
    """All tests: the docs hold what comes out; no value is wrong, nothing unforeseen happens, and no list is stale."""
    outcomes = list(run(tmp_path))
    assert [o for o in outcomes if o.outcome in (WRONG, UNFORESEEN)] == []
    assert {o.test for o in outcomes if o.outcome == INEXACT} == {*INEXACT_RECORDS}, "records that are exact are listed"
    assert document(outcomes).strip() == generated(DOCUMENT, MARKS)


def test_groups_of_refusals() -> None:
    """Each reason is in one group; single forms of operators are named, and nothing is left out of the table."""
    reasons = {
        "types": "'x' has element type STRING, which no target has",
        "wide integers": "node (Add): its integers are uint32, and may be beyond int32, which is what targets compute",
        "absent": "node (Det): there is no such operator",
        OTHER: "node (Resize): extrapolation_value is 10.0",
    }
    assert {reason: group_of(reason) for reason in reasons.values()} == {text: name for name, text in reasons.items()}
    assert len({name for name, _, _ in GROUPS}) == len(GROUPS)
    lines = table([("Equal", reasons["types"]), ("Equal", reasons["types"]), ("Resize", reasons[OTHER])])
    assert lines[2].startswith("| types | 2 |")
    assert lines[2].endswith("| Equal 2 |")
    assert lines[-1] == "| Resize | 1 | extrapolation_value is 10.0 |"
