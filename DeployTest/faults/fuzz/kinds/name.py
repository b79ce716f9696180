"""Hostile names in every place a file has for one, through to the C, the reports and the terminal."""

import contextlib
import json
from collections.abc import Mapping

import numpy as np
import onnx

from deployer.core.errors import DeployerError
from deployer.frontend import check, parse
from DeployTest.faults.fuzz.building import build_inference, command, judge_exit
from DeployTest.faults.fuzz.draw import HOSTILE
from DeployTest.faults.fuzz.edits.graph import rename, value_names
from DeployTest.faults.fuzz.models import chain
from DeployTest.faults.fuzz.output_text import check_text
from DeployTest.faults.fuzz.register import kind
from DeployTest.faults.fuzz.trial import Finding, Trial, hidden

from .training import build, start

PLANT = "zqplantqz"
INVALID = (b"zq\xff\xfe\x80lantq", b"\xc3\x28zqplan", b"\xed\xa0\x80zqplant"[:9])
"""Names of the same length as PLANT that are no UTF-8."""


@kind(4)
def names(trial: Trial) -> str:
    """A valid inference model or training case with some names hostile, compiled with all reports."""
    draw = trial.draw("which")
    training = draw.chance(0.6)
    if training:
        train, optimizer = start(trial)
        paths = [train / "network.onnx", optimizer / "network.onnx"]
        models = [onnx.load(str(p)) for p in paths]
    else:
        paths = [trial.case / "network.onnx"]
        base = chain(trial.draw("model"), standard=True)
        models = [base.model()]
    for number in range(draw.number(1, 4)):
        _rename(trial, models, number)
    for path, model in zip(paths, models, strict=True):
        data = model.SerializeToString()
        if PLANT.encode() in data:
            data = data.replace(PLANT.encode(), draw.one(INVALID)[:9].ljust(9, b"\xff"))
        path.write_bytes(data)
    if trial.build:
        return build(trial) if training else _infer(trial, base.feeds)
    words: list[object] = ["compile", "-t", trial.case, "-o", trial.work / "out", "--verbose", "--plotMemAlloc"]
    words += ["--profileTiling", "--buffering", "single"]
    if not training:
        _data(trial)
    code, out, errors = command(trial, words)
    if hidden(out + errors):
        raise Finding("unsafe text", f"the terminal gets {hidden(out + errors)[0]!a}")
    verdict = judge_exit("compile", code, errors)
    if code == 0:
        files = sorted(p for p in trial.work.rglob("*") if p.suffix in (".c", ".h", ".html", ".json"))
        check_text({p.name: p.read_bytes().decode() for p in files})
        for path in files:
            if path.suffix == ".json":
                json.loads(path.read_text())
    return verdict


def _rename(trial: Trial, models: list[onnx.ModelProto], number: int) -> None:
    if trial.keep is not None and number not in trial.keep:
        return
    trial.drawn = number + 1
    draw = trial.draw(f"edit-{number}")
    new = PLANT if draw.chance(0.1) else draw.one(HOSTILE)
    model = draw.one(models)
    match draw.number(0, 3):
        case 0 if model.graph.node:
            node = draw.one(model.graph.node)
            node.name = new
            trial.log.append(f"{number}: node {new[:40]!r}")
        case 1:
            model.graph.name = model.producer_name = model.graph.doc_string = new
        case _:
            old = draw.one(value_names(model))
            trial.log.append(f"{number}: value {old!r} {new[:40]!r}")
            for other in models:
                rename(other, old, new)


def _data(trial: Trial) -> None:
    """Archives by position, so that names are the graph's alone; none where the graph cannot be read."""
    path = trial.case / "network.onnx"
    arrays: dict[str, dict[str, np.ndarray]] = {"inputs.npz": {}, "outputs.npz": {}}
    with contextlib.suppress(DeployerError, TypeError, UnicodeError):  # the command itself will say so
        program = check.check_program(parse.read_graphs(path, None))
        for file, names in (("inputs.npz", program.data), ("outputs.npz", program.outputs)):
            types = [program.tensors[n].type for n in names]
            arrays[file] = {f"a{i}": np.zeros(t.shape, t.dtype) for i, t in enumerate(types)}
    for file, content in arrays.items():
        np.savez(trial.case / file, allow_pickle=False, **content)


def _infer(trial: Trial, feeds: Mapping[str, np.ndarray]) -> str:
    return build_inference(trial, check.check_program(parse.read_graphs(trial.case / "network.onnx", None)), feeds)
