"""One input and its verdict: what is drawn for it, under which limits it runs, and what its end means."""

import os
import re
import shutil
import signal
import tempfile
import traceback
import unicodedata
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from deployer.core.errors import InternalError, UserError

from .draw import Draw
from .edits.register import edits
from .watch import Reached, StrayError, watching

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 10.0
"""Processor time of one input; the slowest ordinary one takes a tenth."""
MOST_EDITS = 4
COLUMNS, ROWS = 120, 40
"""A screen."""
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode categories of characters that act on a terminal or hide text."""


class TimeUp(BaseException):
    """The input took longer than it may."""


class Refused(Exception):
    """The command refused the input as it should; the text is its first error message."""


class Finding(Exception):
    """The input shows a fault; `sort` is its class."""

    def __init__(self, sort: str, text: str) -> None:
        super().__init__(text)
        self.sort = sort


@dataclass(frozen=True)
class Verdict:
    """Verdict on an input.

    `end` is refused, accepted or finding. `sort` is the class of a finding, or what an accepted input was compared
    with; `place` the error's type and where it was raised; `text` what a person wants to read.
    """

    end: str
    sort: str = ""
    place: str = ""
    text: str = ""

    @property
    def key(self) -> str:
        """Findings with one key are one finding."""
        return f"{self.sort}: {self.place}"


@dataclass
class Trial:
    """Input `index` of a seed, with a folder of its own; `keep` are the numbers of the edits applied, None for all.

    `build` asks that what is accepted is compiled by the C compiler and run. `log` says what was drawn.
    """

    seed: int
    index: int
    folder: Path
    keep: tuple[int, ...] | None = None
    build: bool = False
    phase: Callable[[str], None] = lambda text: None
    log: list[str] = field(default_factory=list)
    drawn: int = 0

    @property
    def case(self) -> Path:
        """The folder with the input's files."""
        return self.folder / "case"

    @property
    def work(self) -> Path:
        """The current folder of the run, which a run may write to."""
        return self.folder / "work"

    @property
    def secret(self) -> Path:
        """A folder that no input has a right to."""
        return self.folder / "secret"

    def draw(self, label: str) -> Draw:
        """Choices for one purpose."""
        return Draw(self.seed, self.index, label)

    def edit(self, kind: str, *things: Any, least: int = 1) -> None:
        """Apply drawn edits of a kind in turn; each has choices of its own, so that leaving one out moves no other."""
        choices = edits(kind)
        for _ in range(self.draw(f"{kind}-count-{self.drawn}").number(least, MOST_EDITS)):
            number, self.drawn = self.drawn, self.drawn + 1
            own = self.draw(f"edit-{number}")
            change = own.one(choices)
            if self.keep is None or number in self.keep:
                self.log.append(f"{number}: {change.__name__}")
                change(*things, own)

    def replay(self) -> str:
        """The command that repeats this input."""
        option = "" if self.keep is None else f" --edits {','.join(map(str, self.keep)) or 'none'}"
        return f"python -m DeployTest.faults.fuzz --seed {self.seed} --only {self.index}{option} --verbose"


Kind = Callable[[Trial], str]


def run(trial: Trial, kind: Kind) -> Verdict:
    """Judge an input in a fresh folder."""
    shutil.rmtree(trial.folder, ignore_errors=True)
    for folder in (trial.case, trial.work, trial.secret):
        folder.mkdir(parents=True)
    before = Path.cwd()
    os.chdir(trial.work)
    try:
        with _timed(SECONDS * (6 if trial.build else 1)):
            return _judged(trial, kind)
    except TimeUp as late:
        return Verdict("finding", "hang", str(late), f"no end within {SECONDS:.0f} s of processor time")
    finally:
        os.chdir(before)


def _judged(trial: Trial, kind: Kind) -> Verdict:
    try:
        return Verdict("accepted", kind(trial))
    except UserError as error:
        return refusal(str(error), error.cause, f"{type(error).__name__}: {place_of(error)}")
    except Refused as error:
        return Verdict("refused", place=_stable(str(error)), text=str(error))
    except Reached:
        return Verdict("accepted", "reached the C compiler")
    except Finding as error:
        return Verdict("finding", error.sort, _stable(str(error)), str(error))
    except InternalError as error:
        return Verdict("finding", "exit 70", f"{type(error).__name__} {place_of(error)}", str(error))
    except MemoryError as error:
        return Verdict("finding", "memory", place_of(error), "".join(traceback.format_exception(error)[-3:]))
    except StrayError as error:
        return Verdict("finding", "stray access", place_of(error), str(error))
    except Exception as error:  # whatever else escapes is what the fuzzer looks for
        text = "".join(traceback.format_exception(error))
        return Verdict("finding", "crash", f"{type(error).__name__} {place_of(error)}", text[-4000:])


def refusal(message: str, cause: str, place: str) -> Verdict:
    """A refusal is well if its message has a cause, fits a screen and holds nothing that acts on a terminal."""
    rows = sum(1 + len(line) // COLUMNS for line in message.splitlines())
    if not cause.strip():
        return Verdict("finding", "message", f"without a cause: {place}", message)
    if rows > ROWS:
        return Verdict("finding", "message", f"longer than a screen: {place}", message[:3000])
    if hidden(message):
        return Verdict("finding", "message", f"hidden characters: {place}", ascii(message)[:3000])
    return Verdict("refused", place=place, text=message)


def hidden(text: str) -> list[str]:
    """Characters besides line feeds that act on a terminal or hide text."""
    return [c for c in text if c != "\n" and unicodedata.category(c) in _HIDDEN]


def place_of(error: BaseException) -> str:
    """File and function of the innermost frame in the project, else of the innermost frame."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if _is_ours(f.filename)]
    if not frames:
        return "nowhere"
    frame = (ours or list(frames))[-1]
    return f"{Path(frame.filename).name}:{frame.name}"


def _is_ours(file: str) -> bool:
    return file.startswith(str(ROOT)) and "/faults/" not in file and "/.venv/" not in file


def _stable(text: str) -> str:
    """The first line without numbers, names and paths, so that one fault has one key."""
    line = text.splitlines()[0] if text else ""
    line = re.sub(r"'[^']*'|\"[^\"]*\"|/\S+", "_", line)
    return re.sub(r"-?\d[\d.e+-]*", "#", line)[:160]


@contextmanager
def _timed(seconds: float) -> Iterator[None]:
    def late(_: int, frame: FrameType | None) -> None:
        where = "nowhere"
        while frame is not None:
            if _is_ours(frame.f_code.co_filename):
                where = f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_name}"
                break
            frame = frame.f_back
        raise TimeUp(where)

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def contained(trial: Trial, *precious: Path, programs: bool = False, tools: Collection[str] = ()) -> Iterator[None]:
    """Run the body so that it can write to the trial's work folder alone; Finding where it tried to do more.

    Reached where it starts one of `tools`, unless it may start programs.
    """
    own = [trial.work, Path(tempfile.gettempdir()), Path(os.environ.get("XDG_CACHE_HOME", trial.work))]
    with watching(own, precious, [trial.secret, Path("/etc")], programs, tools) as seen:
        try:
            yield
        finally:
            touched = list(seen)
    if touched:
        raise Finding("stray access", touched[0].replace(str(trial.folder), "FOLDER"))
