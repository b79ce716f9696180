"""The `deployer` command: its words to what they ask for, errors to exit codes."""

import sys
from collections.abc import Sequence

from deployer.commands import ending
from deployer.commands.parser import parsed

PIPE_WIDTH = 140
"""The width of tables, in columns, without a terminal."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    return ending.guarded(words, lambda: _command(words))


def _command(words: Sequence[str]) -> int:
    arguments = parsed(words)
    from deployer.commands import actions
    from deployer.running.terminal import Shown, Terminal

    words_of = vars(arguments)
    shows: Shown = "json" if words_of.get("json") else "nothing" if words_of.get("quiet") else "text"
    console = Terminal(width=None if sys.stdout.isatty() else PIPE_WIDTH, shows=shows)
    return actions.dispatch(arguments, console)


if __name__ == "__main__":
    sys.exit(main())
