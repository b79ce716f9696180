"""The judgment of readers: a whole file is taken, damage is named with its file, and what is read is what is there."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from deployer.core.errors import UserError

from .trial import Finding, Trial, contained


@contextmanager
def refusing(trial: Trial, *paths: Path, right: bool | None = None) -> Iterator[None]:
    """Within this context a refusal names one of the files, and says what to do; what nobody edited is not refused.

    Where another reading says so, what is `right` is not refused, and what is not is not taken.
    """
    try:
        with contained(trial):
            yield
    except UserError as error:
        if not trial.log:
            raise Finding("whole file refused", str(error)) from error
        if not any(path.name in str(error) for path in paths):
            raise Finding("message", f"without the file: {error}") from error
        if not error.hint and not error.facts:
            raise Finding("message", f"without facts and a way out: {error}") from error
        if right:
            raise Finding("refused otherwise", f"it breaks no rule: {error}") from error
        _judge_cause(error)
        raise
    if right is False:
        raise Finding("read otherwise", f"{paths[0].name} breaks a rule, and was taken")


def _judge_cause(error: UserError) -> None:
    """Finding where a cause is that of another kind of exception than the one that was met."""
    met = error.__context__
    if met is None:
        return
    for text in (text for label, text in error.facts if label == "cause"):
        missing, nested = text.endswith(" is missing"), text == "it is nested too deeply"
        if (missing and not isinstance(met, KeyError)) or nested != isinstance(met, RecursionError):
            raise Finding("message", f"{text}, where the fault is {type(met).__name__}") from error


def same_arrays(found: Mapping[str, np.ndarray], due: Mapping[str, np.ndarray]) -> None:
    """Finding where arrays differ in names, types, shapes or bytes."""
    if set(found) != set(due):
        raise Finding("read otherwise", f"the names are {sorted(found)[:9]}, not {sorted(due)[:9]}")
    for name, array in due.items():
        mine = np.asarray(found[name])
        if (mine.dtype, mine.shape, mine.tobytes()) != (array.dtype, array.shape, array.tobytes()):
            raise Finding("read otherwise", f"{name!r} is {mine.dtype}{list(mine.shape)} {mine.reshape(-1)[:4]}")
