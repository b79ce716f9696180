"""Entry point of the `deployer` command: dispatch of its arguments, and exit codes of errors."""

import sys
from collections.abc import Sequence

from deployer.commands import ending
from deployer.commands.parser import parsed

PIPE_WIDTH = 140
"""The width of tables, in columns, without a terminal."""


class _Call:
    """A call of the command; `json` is true if the arguments read so far ask for lines of JSON."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self.json = "--json" in words

    def run(self) -> int:
        """Do what the words ask for; the exit code."""
        arguments = parsed(self.words)
        from deployer.commands import actions
        from deployer.running.terminal import Shown, Terminal

        options = vars(arguments)
        self.json = bool(options.get("json"))
        shows: Shown = "json" if self.json else "nothing" if options.get("quiet") else "text"
        console = Terminal(width=None if sys.stdout.isatty() else PIPE_WIDTH, shows=shows)
        return actions.dispatch(arguments, console)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    call = _Call(words)
    return ending.guarded(words, call.run, lambda: call.json)


if __name__ == "__main__":
    sys.exit(main())
