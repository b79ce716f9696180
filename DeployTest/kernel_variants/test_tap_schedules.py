"""The committed header of scheduled taps, and what a schedule promises."""

import re
from pathlib import Path

import pytest

from DeployTest.support.kernels import tap_schedules
from DeployTest.support.kernels.tap_schedules import HEADER, interleaved, macros, printed

pytestmark = [pytest.mark.host, pytest.mark.kernels]


def test_header_is_printed(tmp_path: Path) -> None:
    """The committed header is what the generator prints; `make schedules` renews it."""
    path = tmp_path / HEADER.name
    tap_schedules.main(path)
    assert path.read_text() == HEADER.read_text()


def test_loads_run_ahead() -> None:
    """Loads run two taps ahead; the `between` instruction comes before the last tap."""
    loads, taps = ["a", "b", "c", "d"], ["A", "B", "C", "D"]
    assert interleaved(loads, taps) == ["a", "b", "A", "c", "B", "d", "C", "D"]
    assert interleaved(loads[:1], taps[:1], "step") == ["a", "step", "A"]


@pytest.mark.parametrize("name", [name for name, _, _ in macros()])
def test_no_value_is_used_right_after_its_load(name: str) -> None:
    """No tap directly follows the load of its value, and no load directly follows the last use of its register."""
    words = next(words for found, _, words in macros() if found == name)
    for at, word in enumerate(words):
        load = re.match(r'FLW\("(ft\d)"|GET(?:_ONE)?\((\d)', word)
        if load:
            value = f'"{load[1]}"' if load[1] else f", {load[2]},"
            first = load[1] == "ft0"  # which FIRST_TAP takes
            later = list(enumerate(words))[at + 1 :]
            uses = [i for i, other in later if value in other or (first and other == "FIRST_TAP")]
            assert uses
            assert uses[0] > at + 1, word


def test_every_tap_once() -> None:
    """Each schedule has every tap of its window once."""
    for name, parameters, words in macros():
        taps = [re.sub(r"^\w+", "", word) for word in words if word.startswith(("TAP(", "FIRST", "GO_ON("))]
        assert len(set(taps)) == len(taps), name
        if parameters == "":
            assert len(taps) == int(name[-2]) * int(name[-1])
    assert {
        name: sum(word.startswith(("FIRST", "GO_ON")) for word in words)
        for name, _, words in macros()
        if name in ("ROW_MIDDLE", "ROW_BEGIN", "ROW_END", "ROW_BOTH", "ROW_ONE")
    } == {"ROW_MIDDLE": 12, "ROW_BEGIN": 11, "ROW_END": 11, "ROW_BOTH": 10, "ROW_ONE": 3}
    assert "ROWS_33_LENGTH 19" in printed()
