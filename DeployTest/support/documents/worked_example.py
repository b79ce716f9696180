"""The demo, stage by stage, as docs/architecture.md and the README show it: what the compiler makes of one layer."""

import contextlib
import io
import json
import os
import re
import shlex
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import onnx.printer

from deployer.pipeline import tiling_from
from DeployTest.models import autoencoder
from DeployTest.support.building.command_line import deployer

ROOT = Path(__file__).resolve().parents[3]
ROWS = 5
"""Lines of the step table that the README shows."""
COMMAND = re.compile(r"^\t\$\(PY\) -m (deployer\.cli|DeployTest\S+) (.*out/demo.*)$", re.MULTILINE)
STEP = re.compile(r"^/\* [^\n]* \*/\nstatic void step_00\(.*?^}\n", re.MULTILINE | re.DOTALL)


@cache
def stages() -> dict[str, str]:
    """A block of Markdown for each artefact, by name: of the demo's first layer, and the demo's output."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            output = _demo()
            return {name: f"```{language}\n{text}```" for name, (language, text) in _artefacts(output).items()}
        finally:
            os.chdir(here)


def stage(name: str) -> Callable[[], str]:
    """Return the function that makes one of the blocks."""
    return lambda: stages()[name]


def _demo() -> str:
    """Run the commands of `make demo` here; what the last one prints."""
    [(generator, folder), (_, words)] = COMMAND.findall((ROOT / "Makefile").read_text())
    assert generator == "DeployTest.models.autoencoder"
    autoencoder.generate(Path(folder))
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert deployer(*shlex.split(words)) == 0
    return said.getvalue()


def _artefacts(output: str) -> dict[str, tuple[str, str]]:
    case, out = Path("out/demo"), Path("out/demo/c")
    rows, rest = output.split("[loss 0]")
    lines = rows.splitlines()
    shown = "\n".join([*lines[:ROWS], f"  ... {len(lines) - ROWS} more", f"[loss 0]{rest.split('C and plan:')[0]}"])
    forward = onnx.load(case / "autoencoder.onnx").graph.node
    layer = [node.name for node in forward[:2]]
    graphs = [onnx.load(case / f"autoencoder_{kind}/network.onnx").graph for kind in ("train", "optimizer")]
    weight = graphs[0].node[0].input[1]
    nodes = [
        n for g in graphs for n in g.node if re.split("_Grad/", n.name)[0] in layer or n.name.endswith(f"_{weight}")
    ]
    tiling = tiling_from(out / "tiling.json")
    plan = json.loads((out / "plan.json").read_text())["body"]
    step, chosen = tiling.lifetimes.schedule.steps[0], tiling.steps[0]
    operands = plan["steps"][0]["operands"]
    homes = {home["storage"]: home for home in plan["homes"]}
    header = (out / "Network.h").read_text().splitlines()
    names = [f"HOME_{re.sub(r'[^A-Z0-9]', '_', o['storage'].upper())} " for o in operands] + ["SLOT_00_"]
    code = STEP.search((out / "TrainingNetwork.c").read_text())
    assert code
    return {
        "demo": ("text", shown),
        "node": ("text", "".join(_printed(node) for node in forward[:2])),
        "training": ("text", "".join(map(_printed, nodes))),
        "program": ("text", _program(step)),
        "tiling": (
            "text",
            _lines(tile=chosen.tile, order=chosen.order, buffering=chosen.buffering, slots=chosen.slots),
        ),
        "homes": ("text", "".join(_operand(o, homes[o["storage"]]) for o in operands)),
        "addresses": ("c", "".join(f"{line}\n" for line in header if any(f"define {n}" in line for n in names))),
        "code": ("c", code[0]),
        "step": ("text", "\n".join(lines[:2]) + "\n"),
        "verdict": ("text", output.split("Errors:")[1].partition("\n")[2].split("C and plan:")[0]),
    }


def _printed(node: onnx.NodeProto) -> str:
    return f"{onnx.printer.to_text(node).strip()}\n"


def _program(step: Any) -> str:
    """The node of a step and its access."""
    node = step.node
    dims = "  ".join(f"{d.name}={d.size} {d.kind}" for d in step.access.dims if d.size > 1)
    rows = [f"{node.op}({', '.join(node.inputs)}) -> {', '.join(node.outputs)}  {node.attrs}", f"dims  {dims}"]
    for operand in step.access.operands:
        axes = ", ".join(getattr(axis, "dim", "-") for axis in operand.axes)
        rows.append(f"{operand.arg}  {operand.mode:<3}  [{axes}]  of {operand.tensor} {list(operand.view)}")
    return "\n".join(rows) + "\n"


def _lines(**values: Any) -> str:
    return "".join(f"{name:<9}  {_plain(value)}\n" for name, value in values.items())


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return "  ".join(f"{key}={number}" for key, number in value.items())
    return value if isinstance(value, str) else ", ".join(value)


def _operand(operand: dict[str, Any], home: dict[str, Any]) -> str:
    """Return the row of an operand: its tensor's home, and its slots."""
    slots = (
        f"{operand['slots']} x {operand['slot_bytes']} B at L1+{operand['slot_offset']}" if operand["slots"] else "-"
    )
    place = f"{home['level']}+{home['offset']}"
    return f"{operand['arg']}  {home['storage']:<18} home {place:<10} {home['bytes']:>5} B  slots {slots}\n"
