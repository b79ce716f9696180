"""The contract holds: cells have the bytes of the reference, and none is empty, left out or forgotten."""

import fnmatch
from collections.abc import Iterator
from itertools import combinations

import pytest
from onnx import TensorProto, helper

from DeployTest.consistency import digests, report
from DeployTest.consistency.cells import (
    ABSENT,
    DIFFERENT,
    EQUAL,
    KINDS,
    OPEN,
    PAIRWISE,
    Cell,
    all_cells,
    cell_of,
    compared,
    contract,
    digest_of,
    excused,
    listed,
    observed_kinds,
    pairwise_rows,
    shown,
)
from DeployTest.consistency.observed import Key, Laboratory
from DeployTest.consistency.settings import Setting, Workload, rows_of
from DeployTest.consistency.subjects import PART, SUBJECTS, Layout, subject_model
from DeployTest.targets.simulators import needs_simulator

pytestmark = [pytest.mark.host, pytest.mark.training]


@pytest.fixture(scope="module")
def laboratory() -> Iterator[Laboratory]:
    """One for all tests, which share its programs."""
    made = Laboratory()
    yield made
    made.close()


def check(cells: list[Cell], laboratory: Laboratory) -> None:
    """All of them hold, and compare something."""
    assert cells
    for cell in cells:
        result = shown(cell, laboratory)
        assert result.status in (EQUAL, OPEN), (str(cell), result.different[:3], result.reason)
        assert result.faults == (), str(cell)
        assert result.bytes > 0


@pytest.mark.slow
def test_fast(laboratory: Laboratory) -> None:
    """Few programs, which many comparisons share; and the committed digests are those of the reference."""
    check(listed("fast"), laboratory)
    known = digests.committed()
    for cell in listed("siracusa"):
        if cell.subject == "chain":
            assert known[str(cell)] == digests.reference_digest(cell, laboratory)


@pytest.mark.slow
@pytest.mark.parametrize("subject", list(SUBJECTS))
def test_slow(subject: str, laboratory: Laboratory) -> None:
    check([cell for cell in listed("slow") if cell.subject == subject], laboratory)


@pytest.mark.slow
@pytest.mark.qemu_riscv
def test_emulated(laboratory: Laboratory) -> None:
    needs_simulator("qemu_riscv")
    check(listed("emulated"), laboratory)


@pytest.mark.slow
@pytest.mark.siracusa
@pytest.mark.parametrize("subject", list(SUBJECTS))
def test_siracusa(subject: str, laboratory: Laboratory) -> None:
    """The bytes of the reference, and the committed digests."""
    needs_simulator("siracusa")
    cells, known = [cell for cell in listed("siracusa") if cell.subject == subject], digests.committed()
    check(cells, laboratory)
    for cell in cells:
        assert shown(cell, laboratory).digest == known[str(cell)]


def test_every_cell_is_in_a_list() -> None:
    """Each in one of three; each subject has each factor, or an entry that says why not."""
    table, cells = contract(), all_cells()
    names = [str(cell) for name in ("fast", "nightly", "siracusa") for cell in listed(name)]
    assert sorted(names) == sorted(map(str, cells))
    assert len(set(names)) == len(names)
    assert digests.committed().keys() == {str(cell) for cell in listed("siracusa")}
    assert table["subjects"].keys() == SUBJECTS.keys()
    has = {(cell.subject, cell.factor) for cell in cells}
    for subject in SUBJECTS:
        for factor in table["factors"]:
            assert ((subject, factor) in has) != bool(excused((subject, factor), table)), (subject, factor)
    for entry in table["not_applicable"]:
        assert entry["reason"]
        assert set(entry["subjects"]) <= SUBJECTS.keys()
        assert set(entry["factors"]) <= table["factors"].keys()
    for entry in table.get("open", ()):
        assert entry["reason"]
        assert entry["kinds"].keys() <= set(KINDS)
        assert all(any(fnmatch.fnmatchcase(str(c), p) for c in cells) for p in entry["cells"])
    with pytest.raises(ValueError, match="no field of a setting or a workload: tile"):
        cell_of("chain", "tiles", "1", {"tile": 1})


def test_pairs() -> None:
    """Rows have every pair of levels that may stand together, looked for pair by pair."""
    table = contract()[PAIRWISE]
    factors, only, rows = table["factors"], table["only"], pairwise_rows(contract())
    for row in rows:
        assert all(row[name] == factors[name][0] or row["target"] == target for name, target in only.items())
        assert not (row["chunk"] and row["layout"] != "plain")
    absent = [
        (a, x, b, y)
        for a, b in combinations(factors, 2)
        for x in factors[a]
        for y in factors[b]
        if not any(row[a] == x and row[b] == y for row in rows)
    ]
    for a, x, b, y in absent:
        pair = {a: x, b: y}
        elsewhere = [n for n in pair if n in only and pair[n] != factors[n][0] and pair.get("target", "host") != "host"]
        assert elsewhere or (pair.get("chunk") and pair.get("layout", "plain") != "plain"), pair
    assert report.covered()[1] == report.covered()[2]


def test_element_types() -> None:
    """The numbers of each subject are of its declared type."""
    for subject, declared in contract()["subjects"].items():
        kind = getattr(TensorProto, {"float32": "FLOAT"}[declared["type"]])
        graph = subject_model(subject, Layout(1, 4), True).graph
        kinds = {tensor.data_type for tensor in graph.initializer} | {graph.output[0].type.tensor_type.elem_type}
        assert kinds == {kind, TensorProto.INT64}, subject
        assert helper.tensor_dtype_to_np_dtype(kind).itemsize == 4


CELL = cell_of("chain", "batch", "2", {"batch": 2, "trains": False})
GOOD: dict[Key, bytes] = {
    (kind, 0, token): bytes([token + 1]) for kind in observed_kinds(CELL, contract()) for token in range(3)
}


def test_what_makes_a_cell_fail() -> None:
    """A difference; no byte; one value everywhere; keys that are on one side alone; an open difference that is none."""
    table = contract()
    key = next(iter(GOOD))
    fine = compared(CELL, GOOD, GOOD, table)
    assert (fine.status, fine.faults, fine.keys, fine.bytes) == (EQUAL, (), len(GOOD), len(GOOD))
    changed = compared(CELL, {**GOOD, key: b"\x07"}, GOOD, table)
    assert (changed.status, changed.different, changed.holds) == (DIFFERENT, (key,), False)
    assert "no byte of part" in compared(CELL, {}, GOOD, table).faults[0]
    assert "no byte of part" in compared(CELL, {k: x for k, x in GOOD.items() if k[0] != PART}, GOOD, table).faults[0]
    assert "part is the same everywhere" in compared(CELL, dict.fromkeys(GOOD, b"\x01"), GOOD, table).faults
    zeros = {k: bytes(k[2] + 1) for k in GOOD}
    assert "part is the same everywhere" in compared(CELL, zeros, zeros, table).faults
    fewer = {k: x for k, x in GOOD.items() if k != key}
    assert "left out" in compared(CELL, fewer, GOOD, table).faults[0]
    assert "the reference has no" in compared(CELL, GOOD, fewer, table).faults[0]
    known = {**table, "open": [{"cells": ["chain / batch / *"], "kinds": {PART: "0"}, "reason": "of old"}]}
    assert "there is none" in compared(CELL, GOOD, GOOD, known).faults[0]
    still = compared(CELL, {**GOOD, key: b"\x07"}, GOOD, known)
    assert (still.status, still.holds, still.reason) == (OPEN, True, "of old")
    assert digest_of(GOOD) != digest_of({**GOOD, key: b"\x07"})


def test_absent_machines(monkeypatch: pytest.MonkeyPatch, laboratory: Laboratory) -> None:
    """A cell whose machine is absent fails, unless the file says that it may be."""
    monkeypatch.setattr("DeployTest.consistency.cells.available", lambda tools: False)
    for target, holds in (("qemu_riscv", False), ("siracusa", True)):
        result = shown(cell_of("chain", "target", target, {"target": target}), laboratory)
        assert (result.status, result.holds) == (ABSENT, holds)
        assert result.reason


def test_rows() -> None:
    """Texts stand where a layout says, in their order; a token sees those before it of its own text."""
    workload = Workload(3, 4)
    packed = Setting(layout="packed 2", context=9)
    (first, second), (third,) = packed.passes(workload)
    assert [(p.row, p.first, p.text) for p in (first, second, third)] == [(0, 0, 0), (0, 4, 1), (0, 0, 2)]
    rows = rows_of((first, second), packed.model_layout(workload), workload)
    seen = rows["hidden"][0, 0] == 0
    assert seen.sum(1).tolist() == [1, 2, 3, 4, 1, 2, 3, 4, 1]
    assert rows["places"][0].tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0]
    order = [p.text for places in Setting(batch=2, order="rotated").passes(workload) for p in places]
    assert order == [1, 2, 0]
    with pytest.raises(ValueError, match="rows of 8 places are shorter than 12"):
        Setting(layout="packed 3", context=8).model_layout(workload)


def test_page() -> None:
    """The page is that of the file of cells as it is."""
    text = report.PAGE.read_text()
    for name in (*contract()["factors"], PAIRWISE, *SUBJECTS):
        assert f"| {name} | {sum(name in (c.factor, c.subject) for c in all_cells())} |" in text
