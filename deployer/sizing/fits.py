"""Fit of trainings to boards, its table, and remedies that would make one fit."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from deployer.core.errors import UserError, Warn
from deployer.core.files.reading import parse_json
from deployer.core.operator import optimizers
from deployer.core.safe_text import json_text
from deployer.firmware.bill import BILL, library_bill
from deployer.firmware.byte_inputs import takes_bytes
from deployer.firmware.common import PLAIN_FORM, LibraryForm
from deployer.firmware.replay import ReplayOptions
from deployer.pipeline import Case
from deployer.sizing.boards import Board, BoardMemory, Core
from deployer.sizing.needs import CaseNeeds, CoreNeeds, TargetNeeds, fused_bytes
from deployer.sizing.objects import Files, Objects, compile_library

# Comparison of the resources that a model's training needs with those that a board has.

UNITS = 1000
"""MHz are cycles per microsecond; a millisecond has so many."""


@dataclass(frozen=True)
class Footprint:
    """Row of a board: bytes needed and bytes available; None if unknown.

    `place` is the memory of the struct. `instructions` and `update_instructions` are the emulator's of a pass and an
    update, never cycles; `cycles` and `update_cycles` are predicted by a target's cost model. `least_ms` is what a pass
    and its update take if the core begins as many instructions in each cycle as it can, `least_uj` their energy then.
    `lacking` says why it does not fit, `unknown` what was not counted.
    """

    board: str
    title: str
    source: str
    memory: int
    memory_of: int
    place: str
    flash: int
    flash_of: int
    stack: int | None
    instructions: int | None
    update_instructions: int | None
    cycles: int | None
    update_cycles: int | None
    least_ms: float | None
    least_uj: float | None
    lacking: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether all that is known fits."""
        return not self.lacking


def fit_board(board: Board, needs: CaseNeeds, counted: bool = True) -> Footprint:
    """The row of a board; instructions are there only if they are to be `counted`, and the training fits."""
    if board.target is not None:
        return _on_target(board, needs.on_target(board.target))
    assert board.core is not None, "a board has a core where it has no target"
    row = _on_core(board, needs.memory, needs.constants, needs.on_core(board.core, counted=False))
    if not counted or row.lacking:
        return row
    return _on_core(board, needs.memory, needs.constants, needs.on_core(board.core))


def _on_core(board: Board, memory: int, constants: int, core: CoreNeeds) -> Footprint:
    place, lacking = _placed(board.memories, memory, core.stack or 0)
    flash = constants + (core.code or 0)
    if flash > board.flash:
        lacking = [*lacking, f"flash: {flash - board.flash} B too many"]
    unknown = ["code"] * (core.code is None) + ["stack"] * (core.stack is None)
    unknown += ["instructions"] * (core.train is None)
    least = energy = None
    if core.train is not None and board.core is not None:
        count = core.train + (core.update or 0)
        least = count / (board.core.issue * board.mhz * UNITS)
        energy = least * board.energy.milliamperes * board.energy.volts if board.energy else None
    return Footprint(
        board=board.stem,
        title=board.name,
        source=board.source,
        memory=memory,
        memory_of=place.bytes,
        place=place.name,
        flash=flash,
        flash_of=board.flash,
        stack=core.stack,
        instructions=core.train,
        update_instructions=core.update,
        cycles=None,
        update_cycles=None,
        least_ms=least,
        least_uj=energy,
        lacking=tuple(lacking),
        unknown=tuple(unknown),
    )


def _placed(memories: Sequence[BoardMemory], needed: int, stack: int) -> tuple[BoardMemory, list[str]]:
    """The largest memory that holds the struct and leaves room for the stack, there or in another; what is lacking."""
    for place in memories:
        left = place.bytes - needed
        if left >= stack or (left >= 0 and any(other.bytes >= stack for other in memories if other != place)):
            return place, []
    largest = memories[0]
    over = needed - largest.bytes if needed > largest.bytes else needed + stack - largest.bytes
    return largest, [f"memory: {over} B too many for {largest.name}"]


def _on_target(board: Board, target: TargetNeeds) -> Footprint:
    """A machine with several levels: each has its plan's peak; the outermost is the row's memory."""
    assert board.target is not None
    levels: Iterable[tuple[str, int, int]] = target.levels or ((board.target.levels[-1].name, 0, 0),)
    names = ", ".join(f"{name} {peak} of {budget}" for name, peak, budget in target.levels)
    planned = not target.lacking
    return Footprint(
        board=board.stem,
        title=board.name,
        source=board.source,
        memory=sum(peak for _, peak, _ in levels),
        memory_of=sum(budget for _, _, budget in levels),
        place=names,
        flash=0,
        flash_of=0,
        stack=None,
        instructions=None,
        update_instructions=None,
        cycles=target.train if planned else None,
        update_cycles=target.update if planned else None,
        least_ms=None,
        least_uj=None,
        lacking=(target.lacking,) if target.lacking else (),
        unknown=("code", "stack"),
    )


# Remedies for a training that does not fit: options of the compiler, each tried by compiling.

LAST = (1, 2)
"""So many of the last weights, of an output layer without and with a bias, are tried alone."""
Changes = Mapping[str, Any]
"""Arguments of the command line that are different, by name."""


@dataclass(frozen=True)
class Remedy:
    """Remedy: a change with its options, memory and constants of the training then, and boards that it fits.

    `refused` says why it cannot be made. `metrics` are of given samples by name, before the change and after it. A
    `fused` remedy is a program of `deployer train`; a library has no such form.
    """

    title: str
    options: str
    memory: int | None = None
    constants: int | None = None
    boards: tuple[str, ...] = ()
    refused: str = ""
    metrics: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def model_remedies(given: Changes, trained: Sequence[str]) -> Iterator[tuple[str, str, Changes]]:
    """Title, options and changes of each way for a forward model, the last of them several at once.

    `given` are the arguments of now, `trained` the names of what trains, in the model's order.
    """
    together: dict[str, Any] = {}
    words: list[str] = []
    batch, passes = given["batch_size"] or 1, given["accumulate_grad_batches"] or 1
    if batch > 1:
        change = {"batch_size": 1, "accumulate_grad_batches": batch * passes}
        option = f"--batch-size 1 --accumulate-grad-batches {batch * passes}"
        yield f"batches of 1, {batch * passes} passes per update", option, change
        yield (
            "batches of 1, an update after each",
            "--batch-size 1 --accumulate-grad-batches 1",
            {"batch_size": 1, "accumulate_grad_batches": 1},
        )
        together |= {"batch_size": 1, "accumulate_grad_batches": 1}
        words.append("--batch-size 1 --accumulate-grad-batches 1")
    elif passes > 1:
        yield "an update after each pass", "--accumulate-grad-batches 1", {"accumulate_grad_batches": 1}
        together["accumulate_grad_batches"] = 1
        words.append("--accumulate-grad-batches 1")
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


def form_remedies(
    case: Case, form: LibraryForm, replay: ReplayOptions | None
) -> Iterator[tuple[str, str, LibraryForm]]:
    """Title, options and form of each way to ask more of a library's caller than now, the last of them all at once."""
    found: list[tuple[str, str, LibraryForm]] = []
    if not form.inputs and takes_bytes(case.program):
        found.append(("inputs of 8 bits", "--inputs int8", replace(form, inputs="int8")))
    if not form.after_update and not replay and case.dataset is not None and case.dataset.n_accum == 1:
        title = "predictions behind updates alone"
        found.append((title, "--predict-after-update", replace(form, after_update=True)))
    yield from found
    if len(found) > 1:
        yield "both", " ".join(options for _, options, _ in found), LibraryForm("int8", after_update=True)


def tried(
    title: str,
    options: str,
    build: Callable[[], Case],
    boards: Sequence[Board],
    warn: Warn,
    replay: ReplayOptions | None = None,
    form: LibraryForm = PLAIN_FORM,
) -> Remedy:
    """A way, compiled as a library of that form: the boards of those given on which it fits."""
    try:
        needs = CaseNeeds(build(), warn, replay, form)
    except UserError as problem:
        return Remedy(title, options, refused=problem.cause)
    fitting = tuple(board.stem for board in boards if fit_board(board, needs, counted=False).fits)
    return Remedy(title, options, needs.memory, needs.constants, fitting)


def fused_remedy(case: Case) -> Remedy | None:
    """The update in the graph of the pass, where a case has one pass per update; as a program, without prediction."""
    if case.dataset is None or case.dataset.n_accum > 1:
        return None
    memory = fused_bytes(case)
    return (
        None if memory is None else Remedy("update fused with the pass, as a program", "deployer train --fused", memory)
    )


# Library folder with the size of its code on a core: in the manifest by function, on the page in total.

MANIFEST, PAGE = "manifest.json", "README.md"
SECTIONS = ("text", "data", "bss")


def with_sizes(files: Files, name: str, core: Core) -> dict[str, str | bytes]:
    """The files with sizes of the core's compiler; ToolMissing without it.

    The same compiler gives the same bytes; another version may give others, so that it is named.
    """
    built = compile_library(files, name, core)
    page = f"{str(files[PAGE]).rstrip()}\n\n{_section(built)}"
    manifest: dict[str, Any] = parse_json(str(files[MANIFEST]))
    manifest["core"] = _record(built)
    manifest["files"][PAGE] = hashlib.sha256(page.encode()).hexdigest()
    materials = library_bill(name, {**files, PAGE: page})
    manifest["files"][BILL] = hashlib.sha256(materials.encode()).hexdigest()
    return {**files, PAGE: page, BILL: materials, MANIFEST: json_text(manifest)}


def _record(built: Objects) -> dict[str, object]:
    rows = {symbol: dict(zip(SECTIONS, row, strict=True)) for symbol, row in sorted(built.functions.items())}
    stack = built.stack
    bound = {"unbounded": stack.unbounded} if stack.unbounded else {"bytes": stack.bytes, "chain": list(stack.chain)}
    return {
        "name": built.core.name,
        "compiler": built.version,
        "flags": list(built.core.flags),
        **{section: built.total(place) for place, section in enumerate(SECTIONS)},
        "stack": {**bound, "outside": list(stack.outside)},
        "functions": rows,
    }


def _section(built: Objects) -> str:
    """The page's part."""
    text, data, bss = (built.total(place) for place in range(len(SECTIONS)))
    stack = built.stack
    deep = f"has no bound: {stack.unbounded}" if stack.unbounded else f"is at most {stack.bytes} B deep"
    names = [f"`{name.rpartition(':')[2]}`" for name in stack.chain]
    chain = f" ({', '.join(names)})" if names else ""
    outside = ", ".join(f"`{name}`" for name in stack.outside) or "nothing"
    return f"""## On a {built.core.name}

{built.core.description}, {built.version}: {text} B of code and constants, {data} B of data,
{bss} B of zero-initialized data; `manifest.json` lists them by function. The stack below the interface {deep}{chain},
without functions of the caller and of other libraries: {outside}.
"""
