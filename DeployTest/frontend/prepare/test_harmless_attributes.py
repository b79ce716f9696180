"""Attributes beyond an operator's form: those that a list calls harmless are read over, and no others."""

from pathlib import Path

import onnx
import pytest

from deployer.core.errors import UnsupportedOperator
from deployer.core.operator import registry
from deployer.frontend.opsets import EVERY, _table, harmless
from DeployTest.support.graphs.small_graphs import chain, infer, node, raises

pytestmark = [pytest.mark.host, pytest.mark.models]
ROWS = [(op, name) for op, rows in _table().items() for name in rows]


def _read(tmp_path: Path, **attrs: object) -> None:
    infer(tmp_path, chain(node("Gelu", ("x",), ("y",), domain="com.microsoft", **attrs)))


def test_harmless_attributes(tmp_path: Path) -> None:
    """A mark of every operator, and a value that changes nothing."""
    _read(tmp_path / "a", __backwardpass=1)
    _read(tmp_path / "b", approximate="none")


def test_attributes_that_could_change_a_value(tmp_path: Path) -> None:
    """Another value of a listed attribute, another kind of one, and one that no list has."""
    with raises(UnsupportedOperator, "attribute 'approximate' is unknown, and 'tanh' could change a value", "'none'"):
        _read(tmp_path / "a", approximate="tanh")
    with raises(UnsupportedOperator, "attribute '__backwardpass' is of kind FLOAT"):
        _read(tmp_path / "b", __backwardpass=1.0)
    with raises(UnsupportedOperator, "attribute 'slope' is unknown"):
        _read(tmp_path / "c", slope=1.0)


@pytest.mark.parametrize(("op", "name"), ROWS, ids=["-".join(row) for row in ROWS])
def test_rows_of_the_list(op: str, name: str) -> None:
    """Each row is of an operator here, says why, and has kinds that ONNX knows and values of them."""
    assert op == EVERY or op in registry()
    row = _table()[op][name]
    assert set(row) <= {"kinds", "values", "reason"}
    extra = next(e for e in harmless("Add" if op == EVERY else op) if e.attribute == name)
    assert extra.reason
    assert set(extra.kinds) <= set(onnx.AttributeProto.AttributeType.keys())
