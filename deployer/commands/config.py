"""Options from a file: a TOML table per command, whose keys are long options, put before those of the command line."""

import argparse
import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from deployer.commands.lazy_parser import LazyParser
from deployer.core.errors import OptionProblem
from deployer.core.files.reading import read_toml

OPTION = "--config"
NOT_IN_FILES = ("config", "help", "version")


def with_config(words: Sequence[str], commands: Mapping[str, LazyParser]) -> list[str]:
    """The words of the command line, and before them those of its `--config` file that they do not overrule.

    An option of the command line overrules the file's values of the same argument, all of them where it may be
    repeated, and of arguments that exclude it. FileProblem for a file that cannot be read, OptionProblem for a key that
    is no option of the command.
    """
    count = next((n for n in (2, 1) if " ".join(words[:n]) in commands), 0)
    name = " ".join(words[:count])
    if name not in commands:
        return list(words)
    command = commands[name]
    command.complete()
    given = _given(words[count:], command._option_string_actions.values())
    if not given.get("config"):
        return list(words)
    overruled = set(given)
    for group in command._mutually_exclusive_groups:
        places = {action.dest for action in group._group_actions}
        overruled |= places if places & given.keys() else set()
    return [*words[:count], *_words(Path(given["config"]), name, commands, overruled), *words[count:]]


class _Finder(argparse.ArgumentParser):
    """A parser whose errors can be caught."""

    def error(self, message: str) -> NoReturn:
        """Raise the message."""
        raise argparse.ArgumentError(None, message)


def _given(words: Sequence[str], actions: Iterable[argparse.Action]) -> dict[str, Any]:
    """The options among the words, as argparse finds them, also shortened ones; values are texts by argument.

    Nothing where the words cannot be read: the command's own parser tells why.
    """
    finder = _Finder(add_help=False, argument_default=argparse.SUPPRESS)
    for action in dict.fromkeys(actions):
        if action.nargs == 0:
            finder.add_argument(*action.option_strings, dest=action.dest, action="store_const", const=True)
        else:
            finder.add_argument(*action.option_strings, dest=action.dest, nargs=action.nargs)
    try:
        return vars(finder.parse_known_args(words)[0])
    except argparse.ArgumentError:
        return {}


def _words(file: Path, command: str, commands: Mapping[str, LazyParser], overruled: Collection[str]) -> Iterator[str]:
    tables = _tables(file)
    for name in tables:
        if name not in commands:
            raise OptionProblem(f"{file}: [{name}] is not a command", hint=_nearest(name, commands, "a command"))
    actions = commands[command]._option_string_actions
    known = {word.removeprefix("--"): action for word, action in actions.items() if word.startswith("--")}
    known = {key: action for key, action in known.items() if key not in NOT_IN_FILES}
    for key, value in tables.get(command, {}).items():
        if key not in known:
            hint = _nearest(key, sorted(known), "the long name of an option")
            raise OptionProblem(f"{file}: [{command}] {key} is not an option that a file may have", hint=hint)
        for item in value if isinstance(value, list) else [value]:
            word = _word(file, command, key, item, known[key].nargs)
            yield from word if known[key].dest not in overruled else ()


def _word(file: Path, command: str, key: str, item: object, nargs: int | str | None) -> list[str]:
    """The word of one value; a switch is there where it is true, also one whose value may be left out."""
    takes = nargs != 0 and (nargs != argparse.OPTIONAL or not isinstance(item, bool))
    if takes and isinstance(item, str | int | float) and not isinstance(item, bool):
        return [f"--{key}={item}"]
    if not takes and isinstance(item, bool):
        return [f"--{key}"] * item
    wanted, example = ("a text, a number, or a list of these", '"x"') if takes else ("true or false", "true")
    hint = f"{key} = {example}; `deployer {command} --help` says what it takes"
    raise OptionProblem(f"{file}: [{command}] {key} is not {wanted}", hint=hint)


def _tables(file: Path) -> dict[str, dict[str, Any]]:
    tables = read_toml(file, f"give a file of options to {OPTION}")
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise OptionProblem(f"{file}: {name} is outside of a table", hint="a table per command, such as [fit]")
    return tables


def _nearest(name: str, names: Collection[str], kind: str) -> str:
    """Suggest the closest valid name, or list all of them."""
    close = difflib.get_close_matches(name, names, 1)
    return f"did you mean {close[0]}?" if close else f"{kind}: {', '.join(names)}"
