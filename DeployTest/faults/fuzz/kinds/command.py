"""Command lines, drawn from the parser itself: every option that exists, with values that fit and that do not."""

import argparse
from functools import cache
from pathlib import Path
from unittest import mock

from deployer.calibration import calibrate
from deployer.commands.parser import commands_of, parser
from deployer.core import target
from DeployTest.faults.fuzz import bases
from DeployTest.faults.fuzz.building import command, judge_exit
from DeployTest.faults.fuzz.draw import HOSTILE, INTEGERS, Draw
from DeployTest.faults.fuzz.register import kind
from DeployTest.faults.fuzz.trial import Finding, Trial
from DeployTest.faults.fuzz.watch import Reached

FOREIGN = {
    "precious.c": b"int precious;\n",
    "notes.h": b"/* mine */\n",
    "plan.json": b'{"mine": 1}\n',
    "data.bin": b"1",
}
"""Files of the user's in a folder that may be named as the output."""
LEVELS = {
    "defaultMemLevel": ("L2", "L3", "L1", "L4"),
    "budget": ("L1=2000", "L1=64k", "L2=64KiB", "L3=1M", "L4=1M", "L1=", "=1", "L2"),
}
"""Values of options that name levels."""


@cache
def commands() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command."""
    return dict(sorted(commands_of(parser()).items()))


@kind(6)
def command_line(trial: Trial) -> str:
    """A command with drawn options on a valid case; what would be built or measured counts as accepted."""
    draw = trial.draw("which")
    base = bases.compiled(draw.number(0, 1))
    bases.write(base.files, trial.case)
    (trial.case / "forward.onnx").write_bytes(bases.network(Draw("command"), draw.number(0, 3)).SerializeToString())
    bases.write(base.output, trial.work / "earlier")
    bases.write(FOREIGN, trial.work / "foreign")
    bases.write(FOREIGN, trial.work)
    name = draw.one(sorted(commands()))
    words = [*name.split(), *_words(trial, commands()[name], draw)]
    with (
        mock.patch.object(calibrate, "calibrate_target", side_effect=Reached),
        mock.patch.object(target, "costs_file", side_effect=Reached),
    ):
        try:
            code, out, errors = command(trial, words, reach=True)
        except Reached:
            code, out, errors = 0, "", ""
    for folder in (trial.work, trial.work / "foreign"):
        for file, content in FOREIGN.items():
            path = folder / file
            if not path.is_file() or (path.read_bytes() != content and f"{path}" not in map(str, words)):
                raise Finding("user's file", f"lost or changed: {file}\n{' '.join(map(repr, words))}")
    if out.startswith("usage:") and code == 0:
        return "help"
    return judge_exit(name, code, errors)


def _words(trial: Trial, parser: argparse.ArgumentParser, draw: Draw) -> list[str]:
    """Draw the command's required words, mostly valid; then up to four options."""
    words: list[str] = []
    optional = [a for a in parser._actions if not a.required]
    for action in parser._actions:
        if action.required and draw.chance(0.97):
            words += _argument_words(trial, action, draw, proper=draw.chance(0.85))
    if draw.chance(0.7) and any("--output" in a.option_strings for a in optional):
        output = next(a for a in optional if "--output" in a.option_strings)
        words += _argument_words(trial, output, draw, proper=draw.chance(0.5))
    for _ in range(draw.number(0, 4)):
        number, trial.drawn = trial.drawn, trial.drawn + 1
        own = trial.draw(f"edit-{number}")
        option_words = _argument_words(trial, own.one(optional), own, proper=own.chance(0.5)) if optional else []
        if trial.keep is None or number in trial.keep:
            words += option_words
    return words


def _argument_words(trial: Trial, action: argparse.Action, draw: Draw, proper: bool) -> list[str]:
    """The option's word and its value, or the value alone where it is positional."""
    head = [draw.one(action.option_strings)] if action.option_strings else []
    if action.nargs == 0:
        return head
    value = _value(trial, action, draw, proper)
    return [f"{head[0]}={value}"] if head and head[0].startswith("--") and draw.chance(0.3) else [*head, value]


def _value(trial: Trial, action: argparse.Action, draw: Draw, proper: bool) -> str:
    if action.choices is not None:
        return draw.one([str(c) for c in action.choices]) if proper else draw.one(("evil", "", *HOSTILE[:6]))
    if action.type is Path:
        return _path(trial, action, draw, proper)
    if action.dest in LEVELS and proper:
        return draw.one(LEVELS[action.dest])
    if action.type is None and proper:
        return draw.one(["host", "fc", "Gemm", "w0", "1", *target.names()])
    if action.type is None:
        return draw.one(HOSTILE).replace("\0", "")
    if proper:
        return draw.one(("1", "2", "4", "2000", "64000", "0.5"))
    numbers = [str(n) for n in INTEGERS] + [
        "nan",
        "inf",
        "-inf",
        "1e300",
        "1e-300",
        "-0.0",
        "",
        "x",
        "1_0",
        "٣",
        "1e5",
        "0x10",
    ]
    return draw.one(numbers)


def _path(trial: Trial, action: argparse.Action, draw: Draw, proper: bool) -> str:
    """A path that fits the option, or another one of the input's folder."""
    words = " ".join((*action.option_strings, action.dest, str(action.metavar)))
    fitting = {
        "output": ("out", "earlier", "deep/er/out"),
        "test": (str(trial.case), str(trial.case / "m_train")),
        "tiling.json": (str(trial.work / "earlier" / "tiling.json"),),
        "plan.json": (str(trial.work / "earlier" / "plan.json"),),
        "model": (str(trial.case / "forward.onnx"),),
        "dump": ("made.npz", "deep/made.npz", "made"),
        "data": (str(trial.case / "m_train" / "inputs.npz"),),
    }
    if proper:
        for key, values in fitting.items():
            if key in words:
                return draw.one(values)
    others = [
        "",
        ".",
        "foreign",
        "foreign/precious.c",
        "missing",
        "precious.c/below",
        "data.bin",
        "earlier",
        "a\nb",
        "é",
    ]
    others += [str(trial.case), str(trial.case / "m_train" / "network.onnx"), "x" * 300, "--", "-", "\udcff"]
    if "output" in words:
        others = [o for o in others if not o.startswith("/")]
    if "dump" in words:
        others = ["", ".", "foreign", "missing/made.npz", "x" * 300, "a\nb.npz", "precious.c/below"]
    return draw.one(others)
