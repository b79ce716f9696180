"""Options from a file: a TOML table per command, whose keys are long options, put before those of the command line."""

import argparse
import difflib
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from deployer.commands.values import path
from deployer.core.errors import FileProblem, OptionProblem

OPTION = "--config"
MOST_BYTES = 1 << 20
"""A larger file is no file of options."""
NOT_IN_FILES = ("config", "help", "version")


Options = Callable[[str], Mapping[str, argparse.Action]]
"""The options of a command, each by its words."""


def with_config(words: Sequence[str], commands: Collection[str], options: Options) -> list[str]:
    """The words of the command line behind those that its `--config` file has for the command, which they overrule.

    FileProblem for a file that cannot be read, OptionProblem for a key that is no option of the command.
    """
    if not words or words[0] not in commands:
        return list(words)
    finder = argparse.ArgumentParser(prog=f"deployer {words[0]}", add_help=False, allow_abbrev=False)
    finder.add_argument(OPTION, type=path)
    file = finder.parse_known_args(words[1:])[0].config
    if file is None:
        return list(words)
    return [words[0], *_words(file, words[0], commands, options), *words[1:]]


def _words(file: Path, command: str, commands: Collection[str], options: Options) -> Iterator[str]:
    tables = _tables(file)
    for name in tables:
        if name not in commands:
            raise OptionProblem(f"{file}: [{name}] is no command", hint=_nearest(name, commands, "a command"))
    known = {word.removeprefix("--"): action for word, action in options(command).items() if word.startswith("--")}
    known = {key: action for key, action in known.items() if key not in NOT_IN_FILES}
    for key, value in tables.get(command, {}).items():
        if key not in known:
            hint = _nearest(key, sorted(known), "the long name of an option")
            raise OptionProblem(f"{file}: [{command}] {key} is no option that a file may have", hint=hint)
        takes = known[key].nargs != 0
        for item in value if isinstance(value, list) else [value]:
            yield from _word(file, command, key, item, takes)


def _word(file: Path, command: str, key: str, item: object, takes: bool) -> Iterator[str]:
    """The word of one value; a switch is there where it is true."""
    if takes and isinstance(item, str | int | float) and not isinstance(item, bool):
        yield f"--{key}={item}"
    elif not takes and isinstance(item, bool):
        yield from [f"--{key}"] * item
    else:
        wanted = "a text, a number, or a list of these" if takes else "true or false"
        raise OptionProblem(f"{file}: [{command}] {key} is not {wanted}")


def _tables(file: Path) -> dict[str, dict[str, Any]]:
    try:
        with file.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise FileProblem(f"{file} has more than {MOST_BYTES} bytes", hint=f"give a file of options to {OPTION}")
        tables = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileProblem(f"{file} is not TOML", [("cause", str(error)[:200])]) from error
    except RecursionError:
        raise FileProblem(f"{file} is not TOML that can be read", [("cause", "it is nested too deeply")]) from None
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise OptionProblem(f"{file}: {name} stands outside of a table", hint="a table per command, such as [fit]")
    return tables


def _nearest(name: str, names: Collection[str], kind: str) -> str:
    """What a wrong name may have meant."""
    close = difflib.get_close_matches(name, names, 1)
    return f"did you mean {close[0]}?" if close else f"{kind}: {', '.join(names)}"
