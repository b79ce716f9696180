"""The console of all commands: what it prints cannot command the terminal, nor look like another line."""

from typing import Any

from rich.console import Console
from rich.text import Text

from deployer.core.safe_text import escaped


class Terminal(Console):
    """A console without markup: every string is one line of text, and what is not printable in it is an escape."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """The text of a string: all that is printed comes through here, cells of tables too."""
        return super().render_str(escaped(text), **{**options, "markup": False, "emoji": False})

    def lines(self, text: str) -> None:
        """Print a text of several lines whose parts were put on one line each before."""
        for line in text.split("\n"):
            self.print(line, soft_wrap=True)

    def on_broken_pipe(self) -> None:
        """Pass the error on to the caller; rich would end the process with exit code 1."""
        raise
