"""`deployer fits`: boards that a training fits, its resource needs there, and remedies if it does not fit."""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path

from rich.table import Table

from deployer import pipeline
from deployer.commands import ending, requests
from deployer.commands.hardware.quantized_remedy import quantized_remedies
from deployer.commands.parser import given_settings
from deployer.core.errors import DatasetMismatch, DeployerWarning, OptionProblem, ShapeMismatch
from deployer.pipeline import Case
from deployer.running.terminal import Terminal
from deployer.sizing.boards import Board, boards, read_board
from deployer.sizing.fits import Footprint, Remedy, fit_board, form_remedies, fused_remedy, model_remedies, tried
from deployer.sizing.needs import CaseNeeds
from deployer.training.attached_loss import loss_choices
from deployer.training.groups import read_group
from deployer.training.train_graph import build_train_graph
from deployer.training.update_graph import Limits

OF_MODELS = (
    "loss",
    "optimizer",
    "lr",
    "class_weights",
    "trainable",
    "param_group",
    "max_grad_value",
    "max_grad_norm",
    "dropout",
    "data",
)
"""Arguments that a training case has decided."""
PURPOSE = (
    "counted by an emulator of the core, and are not cycles; "
    "the least time assumes that the core issues its maximum of instructions in each cycle"
)


class _Model:
    """The training cases of a forward model, with some arguments changed; the loss is chosen once."""

    def __init__(self, a: argparse.Namespace, folder: Path) -> None:
        self.a, self.folder, self.count = a, folder, 0
        self.loss = a.loss or ""
        self.trained: tuple[str, ...] = ()

    def case(self, changes: dict[str, object]) -> Case:
        """Build and read the case."""
        for loss in (self.loss,) if self.loss else loss_choices():
            try:
                return self._built(loss, argparse.Namespace(**{**vars(self.a), **changes}))
            except (ShapeMismatch, OptionProblem, DatasetMismatch):
                if self.loss or loss == loss_choices()[-1]:
                    raise
        raise AssertionError("there are losses")

    def _built(self, loss: str, a: argparse.Namespace) -> Case:
        self.count += 1
        passes = a.accumulate_grad_batches or 1
        own = given_settings(a) if a.optimizer == self.a.optimizer else {}
        report = build_train_graph(
            a.model,
            loss,
            a.optimizer,
            a.lr,
            a.trainable,
            self.folder / str(self.count),
            samples=passes,
            n_accum=passes,
            settings=own,
            class_weights=a.class_weights,
            groups=[read_group(text) for text in a.param_group],
            limits=Limits(a.max_grad_value, a.max_grad_norm),
            dropout=a.dropout == "on",
            axes=requests.axes_of(a),
            expected=requests.expected_of(a),
            warn=lambda warning: None,
        )
        self.loss = loss
        self.trained = self.trained or tuple(report.trained.values())
        return pipeline.load_training(report.train, warn=lambda warning: None)


def show_fits(a: argparse.Namespace, console: Terminal) -> int:
    """Print the boards' rows, and ways for those on which the training does not fit."""
    chosen = _boards(a.board)
    said: set[str] = set()

    def warn(warning: DeployerWarning) -> None:
        if str(warning) not in said:
            said.add(str(warning))
            ending.tell(str(warning))

    with ExitStack() as held, console.status("plan") as status:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        model = None if a.model.is_dir() else _Model(a, folder)
        case = model.case({}) if model else _read(a)
        needs = CaseNeeds(case, warn, requests.replay_of(a), requests.form_of(a))
        rows = []
        for board in chosen:
            status.update(board.name)
            rows.append(fit_board(board, needs))
        failing = [board for board, row in zip(chosen, rows, strict=True) if not row.fits]
        status.update("ways to make it fit")
        remedies = list(_remedies(a, model, case, failing)) if failing else []
    _show(console, rows, remedies)
    if model:
        console.print(f"loss: {model.loss}", soft_wrap=True)
    record = [{**asdict(row), "fits": row.fits} for row in rows]
    told = {"loss": model.loss} if model else {}
    listed = [asdict(remedy) for remedy in remedies]
    console.event("end", {"boards": record, "remedies": listed, "instructions": PURPOSE, **told})
    return 0


def _boards(names: Sequence[str]) -> list[Board]:
    known = {board.stem: board for board in boards()}
    for name in (name for name in names if name not in known):
        if not name.endswith(".toml") or not Path(name).is_file():
            raise OptionProblem(f"there is no board {name!r}", hint=f"a file NAME.toml, or one of {', '.join(known)}")
        known[name] = read_board(Path(name))
    return [known[name] for name in dict.fromkeys(names)] or list(known.values())


def _read(a: argparse.Namespace) -> Case:
    """The training case of a folder; OptionProblem for what it has decided itself."""
    for name in OF_MODELS:
        if name in a.given:
            flag = f"--{name.replace('_', '-')}"
            raise OptionProblem(f"{flag} has no effect on a training case", hint="leave it out, or give the model")
    return pipeline.load_training(
        a.model,
        n_accum=a.accumulate_grad_batches,
        axes=requests.axes_of(a),
        warn=lambda warning: ending.tell(str(warning)),
    )


def _remedies(a: argparse.Namespace, model: _Model | None, case: Case, failing: Sequence[Board]) -> Iterator[Remedy]:
    """All ways that there are, compiled."""

    def silent(warning: DeployerWarning) -> None:
        """Warnings of the model have been told."""

    replay, own = requests.replay_of(a), requests.form_of(a)
    fused = None if replay else fused_remedy(case)
    yield from (fused,) if fused else ()
    for title, options, form in form_remedies(case, own, replay):
        yield tried(title, options, lambda: case, failing, silent, replay, form)
    if model is not None:
        for title, options, changes in model_remedies(vars(a), model.trained):
            yield tried(
                title, options, partial(model.case, dict(changes)), failing, silent, replay, requests.form_of(a)
            )
        yield from quantized_remedies(a, model.loss, model.trained, model.case, failing, model.folder, silent)
    elif case.dataset is not None and case.dataset.n_accum > 1:

        def single() -> Case:
            return pipeline.load_training(a.model, n_accum=1, axes=requests.axes_of(a), warn=silent)

        title = "an update after each pass"
        yield tried(title, "--accumulate-grad-batches 1", single, failing, silent, replay, own)


def _number(value: float | None, spec: str = ",.0f") -> str:
    return "-" if value is None else format(value, spec).replace(",", " ")


def _show(console: Terminal, rows: Sequence[Footprint], remedies: Sequence[Remedy]) -> None:
    headings = (
        "board",
        "memory",
        "of",
        "flash",
        "of",
        "stack",
        "instructions",
        "update",
        "least ms",
        "least uJ",
        "fits",
    )
    table = Table(*headings, box=None, header_style="bold")
    for row in rows:
        verdict = "; ".join(row.lacking) or "yes" + (f", without {', '.join(row.unknown)}" if row.unknown else "")
        cycles = f"{_number(row.cycles)} cycles (model)" if row.cycles is not None else _number(row.instructions)
        update = row.update_cycles if row.cycles is not None else row.update_instructions
        sizes = (row.memory, row.memory_of, row.flash or None, row.flash_of or None, row.stack)
        numbers = tuple(map(_number, sizes))
        least = _number(row.least_ms, ",.2f"), _number(row.least_uj, ",.1f")
        table.add_row(row.board, *numbers, cycles, _number(update), *least, verdict)
    console.print(table)
    console.print(f"Sizes are in bytes, for the board's compiler. Instructions are {PURPOSE}.", soft_wrap=True)
    if not remedies:
        return
    table = Table("remedy", "options", "memory", "constants", "then fits", box=None, header_style="bold")
    for remedy in remedies:
        places = remedy.refused or ", ".join(remedy.boards) or "-"
        metrics = [f"{name} {old:.4g}, then {new:.4g}" for name, (old, new) in remedy.metrics.items()]
        title = ": ".join((remedy.title, *filter(None, ["; ".join(metrics)])))
        table.add_row(title, remedy.options, _number(remedy.memory), _number(remedy.constants), places)
    console.print(table)
