"""States in flash: a cut of the power at any byte leaves the last good one, and faults in that code are noticed."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from deployer.firmware.sources import library_rules
from DeployTest.firmware.test_library import WARNINGS, ran

pytestmark = [pytest.mark.host, pytest.mark.training]
HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/firmware-state.md"
FAULTS = {
    "the newest slot is written": ("next = last == 0 ? 1 : 0", "next = last == 0 ? 0 : 1"),
    "numbers stay": ("slots[last].number + 1u : 1u", "slots[last].number : 1u"),
    "the oldest is loaded": (">> 31 ? 0 : 1;", ">> 31 ? 1 : 0;"),
    "numbers are compared as they are": (
        "(slots[1].number - slots[0].number) >> 31 ? 0 : 1",
        "slots[1].number > slots[0].number",
    ),
    "nothing is erased": ("if (flash->erase(", "if (0 && flash->erase("),
    "half of the digest is compared": ("&& high == (uint32_t)(digest >> 32)", "&& (high || 1)"),
    "any tensor may change": ("|| !kept[tensor].is_weight ||", "||"),
    "the last unit is not filled": ("while (to->filled &&", "while (0 &&"),
    "what was written is not read": ("slots[next].status == ADAPTED_OK &&", ""),
    "whose number was read does not count": ("&& slots[next].number == number", ""),
    "half a state is kept": ("    model->ready = 0;\n", ""),
    "the first look is left out": ("found ? found : taken(", "(void)found, taken("),
    "passes are forgotten": ("model->passes = head->passes;", "model->passes = 0;"),
    "a whole image is done": (
        "slot->done = slot->status == ADAPTED_OK && (",
        "slot->done = slot->status == ADAPTED_OK || (",
    ),
    "nothing is confirmed": ("!slots[last].sure) confirm(", "0) confirm("),
    "what is confirmed is not done": ("(slot->sure || has_record", "(has_record"),
    "what is not done is nothing": (": slots[0].status == ADAPTED_OK", ": 0"),
    "other tensors stay": ("head->keep != ADAPTED_KEEP_STATE && i < OWN", "0 && i < KEPT"),
}
"""Faults of the code that saves, each with its text and what is planted there."""


@pytest.fixture(scope="module")
def objects(adapted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, built."""
    build = tmp_path_factory.mktemp("flash")
    ran("make", "-s", "-C", adapted, f"{build}/libadapted.a", f"BUILD={build}", f"CFLAGS=-O1 {' '.join(WARNINGS)}")
    return build / "libadapted.a"


def checked(folder: Path, objects: Path, state: Path, program: Path, warnings: Sequence[str] = ()) -> Path:
    """The program that checks states, with this source of them."""
    flags = [f"-std=c{library_rules().standard}", "-O2", *library_rules().flags, *warnings]
    includes = [f"-I{folder}/include", f"-I{folder}/src"]
    ran("gcc", *flags, *includes, HERE / "check_flash.c", state, objects, "-lm", "-o", program)
    return program


def check_cuts(program: Path, stride: int, listed: bool = True) -> None:
    """No state is lost, and the page has the number of cuts that were tried, if they are `listed` there."""
    found = re.fullmatch(r"cuts (\d+) lost 0\nweak (\d+) lost 0\ntwice (\d+) lost 0\n", ran(program, stride))
    assert found
    for count in found.groups() if listed else ():
        assert f"| {int(count):,} | 0 |".replace(",", " ") in PAGE.read_text()


def test_few_cuts(adapted: Path, objects: Path, tmp_path: Path) -> None:
    """Every byte of a first and of a second save, and every 101st of the save after each of those cuts."""
    check_cuts(
        checked(adapted, objects, adapted / "src/adapted_state.c", tmp_path / "check", WARNINGS), 101, listed=False
    )


@pytest.mark.slow
def test_cuts(adapted: Path, objects: Path, tmp_path: Path) -> None:
    """Every byte of a first and of a second save, and every 11th of the save after each of those cuts."""
    program = checked(adapted, objects, adapted / "src/adapted_state.c", tmp_path / "check", WARNINGS)
    check_cuts(program, 11)


@pytest.mark.slow
def test_all_cuts(adapted: Path, objects: Path, tmp_path: Path) -> None:
    """Every byte of the save after each cut, too."""
    program = checked(adapted, objects, adapted / "src/adapted_state.c", tmp_path / "check")
    check_cuts(program, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_faults(name: str, adapted: Path, objects: Path, tmp_path: Path) -> None:
    """A fault in the library's code ends the check."""
    text, (right, wrong) = (adapted / "src/adapted_state.c").read_text(), FAULTS[name]
    assert text.count(right) == 1
    (tmp_path / "state.c").write_text(text.replace(right, wrong))
    with pytest.raises(AssertionError, match=r"line |lost"):
        ran(checked(adapted, objects, tmp_path / "state.c", tmp_path / "check"), 11)
