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

    def format_help(self) -> str:
        """The help, with all options."""
        self.complete()
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Print the message and exit with 2."""
        super().error(escaped(message))
