"""Progress of a run over epochs: a bar on a terminal or in a notebook, and a line per epoch."""

from importlib.util import find_spec

from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from deployer.fitting.callback import Callback
from deployer.fitting.checkpoint import CheckpointPlace
from deployer.fitting.history import EpochRow
from deployer.running.terminal import Terminal


class Speed(ProgressColumn):
    """Passes per second of the last segments."""

    def render(self, task: Task) -> Text:
        """The number, once there is one."""
        return Text(f"{task.speed:.4g} passes/s" if task.speed else "")


class ProgressBar(Callback):
    """Shows a run as a line per epoch, and where it can be drawn a bar with loss, rate, and passes per second."""

    def __init__(self, console: Terminal) -> None:
        texts = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Speed(), TimeRemainingColumn()
        self.bar = Progress(*texts, console=console, transient=True, disable=not is_live(console))
        self.console = console
        self.task = self.bar.add_task("", total=None)

    def on_stage(self, text: str) -> None:
        """Show what is done before the first pass."""
        self.bar.update(self.task, description=text)
        self.bar.start()

    def on_begin(self, passes: int, per_epoch: int, place: CheckpointPlace) -> None:
        """Give the bar its length."""
        if place.passes:
            self.console.print(f"resumed after pass {place.passes} of {passes}")
        self.bar.update(self.task, total=passes, completed=place.passes)

    def on_message(self, text: str) -> None:
        """Print it."""
        self.console.print(text, soft_wrap=True)

    def on_segment(self, place: CheckpointPlace, loss: float, lr: float) -> None:
        """Move the bar."""
        self.bar.update(self.task, completed=place.passes, description=f"loss {loss:.4g}  rate {lr:.3g}")

    def on_epoch_end(self, row: EpochRow) -> None:
        """Print the epoch's line."""
        self.console.print(row.text, soft_wrap=True)


def is_live(console: Terminal) -> bool:
    """Whether a console can redraw a line: that of a terminal, or of a notebook with widgets."""
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)


def progress_bar() -> ProgressBar | None:
    """The progress of a run that Python started, on standard error or in the notebook; None elsewhere."""
    console = Terminal(stderr=True)
    return ProgressBar(console) if console.is_terminal or console.is_jupyter else None
