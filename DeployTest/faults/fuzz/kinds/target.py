"""Target files: lines and values of the TOML edited, and its bytes; then a case compiled for what is accepted."""

import re
import shutil
from unittest import mock

from deployer import pipeline
from deployer.codegen import generate
from deployer.core import target
from deployer.core.plan import Options
from deployer.core.target import TARGETS_DIR
from DeployTest.faults.fuzz import bases
from DeployTest.faults.fuzz.draw import Draw
from DeployTest.faults.fuzz.edits.register import edits_of
from DeployTest.faults.fuzz.output_text import check_text
from DeployTest.faults.fuzz.register import kind
from DeployTest.faults.fuzz.trial import Trial, contained

from .graph import damage

VALUES = ("0", "1", "-1", "3", "16", "4096", "2147483648", "9223372036854775807", "99999999999999999999", "1.5", "nan")
VALUES += ('""', '"x"', "true", "false", "[]", "[1]", "{}", '"\\u202e"', '"*/"', "inf", "1979-05-27", '["gcc"]', "-0.0")


@kind(4)
def machine(trial: Trial) -> str:
    """A target's file or its costs; an accepted one plans a small case."""
    draw = trial.draw("which")
    name = draw.one(target.names())
    folder = trial.work / "targets"
    folder.mkdir()
    for path in (*sorted(TARGETS_DIR.glob("*.toml")), *sorted(TARGETS_DIR.glob("*/costs.toml"))):
        copy = folder / path.relative_to(TARGETS_DIR)
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, copy)
    costs = folder / name / "costs.toml"
    path = costs if costs.is_file() and draw.chance(0.3) else folder / f"{name}.toml"
    if draw.chance(0.75):
        lines = path.read_text().splitlines()
        trial.edit("toml", lines)
        path.write_text("\n".join(lines) + "\n")
    else:
        path.write_bytes(damage(trial, path.read_bytes()))
    bases.write(bases.training(0), trial.case)
    with contained(trial), mock.patch.object(target, "TARGETS_DIR", folder):
        target.parse(folder / f"{name}.toml")
        if not draw.chance(0.15):
            return "parsed"
        case = pipeline.load_training(trial.case)
        options = Options(name, draw.one(("single", "double")))
        _, plan = pipeline.plan_case(case, options)
        check_text(generate.generate_files(plan))
    return "planned"


def _keys(lines: list[str]) -> list[int]:
    return [i for i, line in enumerate(lines) if re.match(r"\s*[\w.\"-]+\s*=", line)] or [0]


@edits_of("toml")
def toml_value(lines: list[str], draw: Draw) -> None:
    """Another value of a key."""
    at = draw.one(_keys(lines))
    if lines and "=" in lines[at]:
        lines[at] = f"{lines[at].split('=')[0]}= {draw.one(VALUES)}"


@edits_of("toml")
def toml_number(lines: list[str], draw: Draw) -> None:
    """Another number somewhere in a line."""
    numbers = [(i, m) for i, line in enumerate(lines) for m in re.finditer(r"\d+", line)]
    if numbers:
        at, match = draw.one(numbers)
        lines[at] = lines[at][: match.start()] + draw.one(VALUES) + lines[at][match.end() :]


@edits_of("toml")
def toml_line(lines: list[str], draw: Draw) -> None:
    """A line removed, repeated, moved, or foreign."""
    if not lines:
        return
    at, other = draw.number(0, len(lines) - 1), draw.number(0, len(lines) - 1)
    match draw.number(0, 4):
        case 0:
            del lines[at]
        case 1:
            lines.insert(other, lines[at])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            lines.insert(at, draw.one(("evil = 1", "[evil]", "[[levels]]", "[kernels]", '"*/" = 1', "[icache]")))
        case _:
            lines.insert(0, "inherits = " + draw.one(('"host"', '"siracusa"', '"nobody"', '"../x"', "1", '""')))


@edits_of("toml")
def toml_key(lines: list[str], draw: Draw) -> None:
    """A key renamed."""
    at = draw.one(_keys(lines))
    if lines and "=" in lines[at]:
        lines[at] = f"{draw.one(('evil', 'name', 'bytes', 'levels', 'cores', 'kernels'))} ={lines[at].split('=', 1)[1]}"
