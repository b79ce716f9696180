"""Console of all commands: its output can neither control the terminal nor imitate another line."""

from collections.abc import Mapping
from typing import Any, Literal

from rich.console import Console
from rich.text import Text

from deployer.core.safe_text import escaped, json_line

Shown = Literal["text", "json", "nothing"]
"""What a console shows: text for people, lines of JSON for programs, or nothing."""


class Terminal(Console):
    """Console without markup: every string is one line of text, with unprintable characters escaped.

    What is printed is text, and left out unless `shows` is that; `event` is for programs.
    """

    def __init__(self, *, stderr: bool = False, width: int | None = None, shows: Shown = "text") -> None:
        quiet = shows != "text"
        super().__init__(stderr=stderr, width=width, highlight=False, markup=False, emoji=False, quiet=quiet)
        self.shows = shows

    def event(self, name: str, values: Mapping[str, object]) -> None:
        """Print what happened as a line of JSON, where the console shows those."""
        if self.shows == "json":
            print(json_line({"event": name, **values}), flush=True)

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
