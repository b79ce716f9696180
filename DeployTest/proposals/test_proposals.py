"""Options that errors propose are followed: the next command ends well, or with another error."""

from pathlib import Path
from types import ModuleType

import pytest

from deployer import pipeline
from deployer.commands import ending
from deployer.core.errors import DeployerError, OptionProblem
from deployer.frontend import dataset
from DeployTest.house.test_layout import ROOT
from DeployTest.proposals.hints import followed, source_hints
from DeployTest.proposals.provoked import OPEN, PROVOKED, Places
from DeployTest.support.building.command_line import deployer

pytestmark = [pytest.mark.host, pytest.mark.training]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """Inputs that all requests share."""
    return Places(tmp_path_factory.mktemp("proposals"))


@pytest.fixture
def errors(monkeypatch: pytest.MonkeyPatch) -> list[DeployerError]:
    """The errors that commands ended with."""
    told: list[DeployerError] = []
    shown = ending._user_error

    def kept(error: Exception) -> DeployerError:
        told.append(shown(error))
        return told[-1]

    monkeypatch.setattr(ending, "_user_error", kept)
    return told


@pytest.mark.matrix(keep=20)
@pytest.mark.parametrize("name", PROVOKED)
def test_proposal(name: str, places: Places, errors: list[DeployerError], tmp_path: Path) -> None:
    """Each option that the error proposes, with each value, leads on."""
    provoked = PROVOKED[name]
    words, values = [str(word) for word in provoked.words(places)], provoked.values(places)
    errors.clear()
    first = [*words, "-o", str(tmp_path / "first")] if provoked.writes and "-o" not in words else words
    assert deployer(*first) == 2
    [error] = errors
    assert error.hint
    for number, following in enumerate(followed(words, error.cause, error.hint, values)):
        errors.clear()
        if provoked.writes and "-o" not in following:
            following += ["-o", str(tmp_path / str(number))]
        code = deployer(*following)
        assert code in (0, 2), following
        for later in errors:
            assert type(later) is not OptionProblem, f"{following}: {later}"
            assert (type(later), later.cause) != (type(error), error.cause), f"{following}: {later}"


@pytest.mark.parametrize(
    ("place", "flag", "words", "limit"),
    [
        (dataset, "--n-steps", ("compile", "--n-steps", "400"), 100000),
        (pipeline, "--check-passes", ("compile", "--n-steps", "8", "--check-passes", "8"), 10000),
    ],
)
def test_limit_of_a_file(
    place: ModuleType,
    flag: str,
    words: tuple[str, ...],
    limit: int,
    places: Places,
    errors: list[DeployerError],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The number that a file of so many bytes has room for is one that works."""
    monkeypatch.setattr(place, "FILE_LIMIT", limit)
    command = [words[0], "-t", str(places.mlp), *words[1:]]
    assert deployer(*command, "-o", tmp_path / "first") == 2
    [error] = errors
    assert error.hint.startswith(f"{flag} ")
    [following] = followed(command, error.cause, error.hint, {})
    assert deployer(*following, "-o", tmp_path / "second") == 0


@pytest.mark.slow
def test_every_proposal_is_followed(places: Places, errors: list[DeployerError], tmp_path: Path) -> None:
    """Each text of the compiler that names an option is a part of a hint that is provoked here, or stands in OPEN."""
    for number, provoked in enumerate(PROVOKED.values()):
        words = [str(word) for word in provoked.words(places)]
        deployer(*words, *(["-o", str(tmp_path / str(number))] if provoked.writes and "-o" not in words else []))
    hints = "\n".join(error.hint for error in errors)
    elsewhere = {"--check-passes "}  # in test_limit_of_a_file
    texts = {text: place for place, text in source_hints(ROOT) if text not in elsewhere}
    unprovoked = {text: place for text, place in texts.items() if text.strip(" ,") not in hints}
    assert unprovoked.keys() == OPEN.keys(), {text: place for text, place in unprovoked.items() if text not in OPEN}
