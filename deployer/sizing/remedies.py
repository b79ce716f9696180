"""Remedies for a training that does not fit: options of the compiler, each tried by compiling."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployer.core.errors import UserError, Warn
from deployer.core.operator import optimizers
from deployer.pipeline import Case
from deployer.sizing.boards import Board
from deployer.sizing.fits import fit_board
from deployer.sizing.needs import CaseNeeds, fused_bytes

LAST = (1, 2)
"""So many of the last weights, of an output layer without and with a bias, are tried alone."""
Changes = Mapping[str, Any]
"""Arguments of the command line that are different, by name."""


@dataclass(frozen=True)
class Remedy:
    """Remedy: a change with its options, memory and constants of the training then, and boards that it fits.

    `refused` says why it cannot be made. A `fused` remedy is a program of `deployer train`; a library has no such
    form.
    """

    title: str
    options: str
    memory: int | None = None
    constants: int | None = None
    boards: tuple[str, ...] = ()
    refused: str = ""


def model_ways(given: Changes, trained: Sequence[str]) -> Iterator[tuple[str, str, Changes]]:
    """Title, options and changes of each way for a forward model, the last of them several at once.

    `given` are the arguments of now, `trained` the names of what trains, in the model's order.
    """
    together: dict[str, Any] = {}
    words: list[str] = []
    batch, passes = given["batch"] or 1, given["n_accum"] or 1
    if batch > 1:
        change = {"batch": 1, "n_accum": batch * passes}
        option = f"--batch 1 --n-accum {batch * passes}"
        yield f"batches of 1, {batch * passes} passes per update", option, change
        yield "batches of 1, an update after each", "--batch 1 --n-accum 1", {"batch": 1, "n_accum": 1}
        together |= {"batch": 1, "n_accum": 1}
        words.append("--batch 1 --n-accum 1")
    elif passes > 1:
        yield "an update after each pass", "--n-accum 1", {"n_accum": 1}
        together["n_accum"] = 1
        words.append("--n-accum 1")
    usual = next(iter(optimizers()))
    if given["optimizer"] not in ("", usual):
        yield f"optimizer {usual}", f"--optimizer {usual}", {"optimizer": usual}
        together["optimizer"] = usual
        words.append(f"--optimizer {usual}")
    counts = (
        [] if given["trainable"] else sorted({len(trained) // 2, *LAST} & set(range(1, len(trained))), reverse=True)
    )
    for count in counts:
        regex = "^(" + "|".join(map(re.escape, trained[-count:])) + ")$"
        title = f"only the last {count} of {len(trained)} weights train"
        yield title, f"--trainable '{regex}'", {"trainable": regex}
        together["trainable"] = regex
    if len(words) + bool(counts) > 1:
        words += [f"--trainable '{together['trainable']}'"] if counts else []
        yield "all of these", " ".join(words), together


def tried(title: str, options: str, build: Callable[[], Case], boards: Sequence[Board], warn: Warn) -> Remedy:
    """A way, compiled: the boards of those given on which it fits."""
    try:
        needs = CaseNeeds(build(), warn)
    except UserError as problem:
        return Remedy(title, options, refused=problem.cause)
    fitting = tuple(board.stem for board in boards if fit_board(board, needs, counted=False).fits)
    return Remedy(title, options, needs.memory, needs.constants, fitting)


def fused_way(case: Case) -> Remedy | None:
    """The update in the graph of the pass, where a case has one pass per update; as a program, without prediction."""
    if case.dataset is None or case.dataset.n_accum > 1:
        return None
    memory = fused_bytes(case)
    return (
        None if memory is None else Remedy("update fused with the pass, as a program", "deployer train --fused", memory)
    )
