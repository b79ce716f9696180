"""Lazy command-line parser: it adds options that are slow to list only if it is used.

Its messages hold one word of the command line per line.
"""

import argparse
from collections.abc import Callable
from typing import Any, NoReturn

from deployer.core.safe_text import escaped


class LazyParser(argparse.ArgumentParser):
    """A parser whose messages hold the words of the command line on one line each.

    `late` adds options that take long to know, when the command line or the help has come to this parser.
    """

    late: Callable[["LazyParser"], None] | None = None

    def complete(self) -> None:
        """Add the late options, once."""
        if (late := self.late) is not None:
            self.late = None
            late(self)
            self.set_defaults(**self._defaults)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse with all options."""
        self.complete()
        return super().parse_known_args(args, namespace)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse a whole command line; an unknown option is answered by the one that was probably meant."""
        found, rest = self.parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}{self._proposal(rest[0], found)}")
        return found

    def _proposal(self, word: str, given: argparse.Namespace) -> str:
        """The option of the given command that was probably meant by a word, as the end of a message."""
        from deployer.fitting.argument_names import meant

        chosen: argparse.ArgumentParser = self
        for name in (getattr(given, "command", ""), getattr(given, "action", "")):
            chosen = inner_parsers(chosen).get(name, chosen)
        known = [name.removeprefix("--") for name in chosen._option_string_actions if name.startswith("--")]
        name = word.partition("=")[0].removeprefix("--").replace("-", "_")
        found = meant(name, [option.replace("-", "_") for option in known]) if word.startswith("--") else ""
        return f" (did you mean --{found.replace('_', '-')}?)" if found else ""

    def format_help(self) -> str:
        """The help, with all options."""
        self.complete()
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Print the message and exit with 2."""
        super().error(escaped(message))


def inner_parsers(parser: argparse.ArgumentParser) -> dict[str, "LazyParser"]:
    """The parsers of a parser's commands, or of a command's actions; none where it has none."""
    found = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return {name: inner for action in found for name, inner in action.choices.items()}
