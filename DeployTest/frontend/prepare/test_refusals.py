"""All that a model has and the compiler has not is said at once, and no step of the compiler is proposed."""

from pathlib import Path

import pytest

from deployer.core.errors import UnsupportedOperator
from deployer.core.operator import file_of, registry
from DeployTest.support.graphs.small_graphs import Model, infer, node, raises, value

pytestmark = [pytest.mark.host]
X = value("x", (2, 6))
PREVIEW = "ai.onnx.preview.training"


def test_all_at_once(tmp_path: Path) -> None:
    """Operators that are not there and forms that are not supported: number, nodes, and what is near."""
    nodes = (
        *(node("Det", ("x",), (f"d{i}",)) for i in range(10)),
        node("Foo", ("d0",), ("f",)),
        node("Cumsums", ("x",), ("c",)),
        *(node("GlobalLpPool", ("r",), ("y",)), node("Dropout", ("x", "ratio"), ("r",))),
    )
    outputs = [value(n, None) for n in ("y", "f", "c", *(f"d{i}" for i in range(10)))]
    texts = (
        *(
            "14 nodes of the model are not supported, of 5 kinds",
            "  Det ",
            "10 nodes, 'Det_d0', 'Det_d1'",
            "and 2 more",
        ),
        *(
            "  Foo ",
            "1 node, 'Foo_f': there is no such operator",
            "  Cumsums ",
            "similar: CumSum",
        ),
        *("  GlobalLpPool ", "computed at run time"),
    )
    with raises(UnsupportedOperator, *texts):
        infer(tmp_path, Model(nodes, (X, value("ratio", ())), outputs))


def test_forms_of_the_file(tmp_path: Path) -> None:
    """Nodes that are not of their schema's form, too, with one line for all of one reason."""
    nodes = [node("Relu", ("x",), (f"r{i}",), slope=0.5) for i in range(3)]
    nodes += [node("Neg", ("r0", "r1"), ("y",))]
    with raises(
        UnsupportedOperator, "4 nodes", "2 kinds", "3 nodes, 'Relu_r0'", "attribute 'slope'", "it has 2 inputs"
    ):
        infer(tmp_path, Model(nodes, (X,), (value("y", None), value("r2", None))))


def test_one_is_as_before(tmp_path: Path) -> None:
    """One node is refused by its own error."""
    with raises(UnsupportedOperator, "node 'Det_y' (Det): there is no such operator", "`deployer operators` lists"):
        infer(tmp_path, Model((node("Det", ("x",), ("y",)),), (X,), (value("y", None),)))


def test_reasons_of_absent_operators(tmp_path: Path) -> None:
    """An operator of ONNX that cannot be here says why, where its domain is ONNX's."""
    listed = [node("NonZero", ("x",), ("n",)), node("Gradient", ("x",), ("y",), xs=["x"], y="n", domain=PREVIEW)]
    whys = ("the shape of its result depends on the values", "it differentiates a part of the graph")
    for one, why in zip(listed, whys, strict=True):
        with raises(UnsupportedOperator, f"({one.op_type}): {why}"):
            infer(tmp_path, Model((one,), (X,), (value(one.output[0], None),)))
    own = node("NonZero", ("x",), ("y",), domain="org.outside")
    with raises(UnsupportedOperator, "there is no such operator"):
        infer(tmp_path, Model((own,), (X,), (value("y", None),)))


def test_steps_are_no_operators(tmp_path: Path) -> None:
    """The error does not propose what only the compiler makes."""
    with raises(UnsupportedOperator, "there is no such operator", "similar: ") as caught:
        infer(tmp_path, Model((node("ChannelNormalizations", ("x",), ("y",)),), (X,), (value("y", None),)))
    steps = {name for name, operator in registry().items() if not file_of(operator).in_files}
    assert steps
    proposed = caught.value.hint.removeprefix("similar: ").split(", ")
    assert steps.isdisjoint(proposed)
