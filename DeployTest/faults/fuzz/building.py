"""Accepted inputs through the C compiler and the simulator; the verdict is that of the command line."""

import contextlib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any
from unittest import mock

import numpy as np

from deployer import cli
from deployer.commands import actions
from deployer.core import target
from deployer.core.errors import InternalError
from deployer.core.ir import Program
from deployer.running import build as build_stage
from deployer.sizing.boards import cores
from deployer.verify.reference import run_inference
from DeployTest.support.tolerances import table

from .output_text import random_words
from .reference import moved_by_noise
from .trial import Finding, Refused, Trial, contained, place_of, refusal
from .watch import Reached


@cache
def _tools() -> frozenset[str]:
    """The compilers of all targets and cores."""
    chains = (target.load(name).toolchain for name in target.names())
    return frozenset([*(chain.compiler[0] for chain in chains if chain), *(core.compiler for core in cores().values())])


def command(trial: Trial, words: Sequence[object], programs: bool = False, reach: bool = False) -> tuple[int, str, str]:
    """Exit code, output and errors of a command in this process; `reach`: Reached where it begins to build."""
    out, errors = io.StringIO(), io.StringIO()
    stop = mock.patch.object(build_stage, "build_program", side_effect=Reached) if reach else contextlib.nullcontext()
    raised: list[Exception] = []
    streams = contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors)
    tools = _tools() if reach else ()
    with streams[0], streams[1], stop, contained(trial, programs=programs, tools=tools), _noting(raised):
        try:
            code = cli.main([str(word) for word in words])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    if code == 70 and raised and not isinstance(raised[0], InternalError):
        raise raised[0]
    if code == 70 and raised:
        raise Finding("exit 70", f"{type(raised[0]).__name__} {place_of(raised[0])}\n{errors.getvalue()[-3000:]}")
    trial.log.append("deployer " + " ".join(map(repr, map(str, words))) + f" -> {code}")
    return code, out.getvalue(), errors.getvalue()


@contextlib.contextmanager
def _noting(raised: list[Exception]) -> Iterator[None]:
    """Keep what a command raises, which the command line turns into a code and a text."""
    dispatch = actions.dispatch

    def noted(*arguments: Any) -> int:
        try:
            return dispatch(*arguments)
        except Exception as error:
            raised.append(error)
            raise

    with mock.patch.object(actions, "dispatch", noted):
        yield


def judge_exit(words: str, code: int, errors: str, allowed: Sequence[int] = (0, 2)) -> str:
    """Judge the exit code of the command `words`: raise Refused for 2, Finding for codes that are not `allowed`."""
    if code not in allowed:
        raise Finding("exit 70" if code == 70 else f"exit {code}", f"{errors.strip()[:3000]}")
    if code == 2:
        lines = [line for line in errors.strip().splitlines() if not line.startswith(("usage:", "  "))]
        verdict = refusal(errors if not errors.startswith("usage:") else "", lines[0] if lines else "", "command")
        if verdict.end == "finding":
            raise Finding(verdict.sort, f"{verdict.place}: {verdict.text}")
        raise Refused(f"{words}: {lines[0]}")
    return f"{words}: exit {code}"


def build_inference(trial: Trial, program: Program, feeds: Mapping[str, np.ndarray]) -> str:
    """Compile, build and run an accepted model; its gold is the float64 meaning, which ONNX Runtime shares."""
    draw = trial.draw("build")
    inputs = {}
    for name in program.data:
        kind = program.tensors[name].type
        array = np.asarray(feeds[name]) if name in feeds else draw.array(kind.shape)
        array = np.resize(array, kind.shape) if array.size else np.zeros(kind.shape)
        inputs[name] = array.astype(np.int32) if kind.dtype == "int32" else array.astype(np.float32)
    with np.errstate(all="ignore"):
        exact = run_inference(program, inputs, np.float64)
        narrow = run_inference(program, inputs, np.float32)
    gold = {n: exact[n].astype(program.tensors[n].type.dtype) for n in program.outputs}
    if any(not np.isfinite(x).all() for x in (*gold.values(), *narrow.values())):
        return "not built: results are not finite"
    np.savez(trial.case / "inputs.npz", allow_pickle=False, **inputs)
    np.savez(trial.case / "outputs.npz", allow_pickle=False, **gold)
    words = ["infer", "-t", trial.case, "-o", trial.work / "out", *random_words(draw)]
    code, out, errors = command(trial, words, programs=True)
    if code == 2:
        return "not built: refused"
    if code == 0:
        return "built and passed"
    worst = max(float(np.abs(exact[n] - narrow[n]).max(initial=0.0)) for n in program.outputs)
    if code == 1 and worst > table()["fuzz"]["conditioning"]:
        return "built: beyond the tolerance, and so is numpy's float32"
    said = re.search(r"largest difference (\S+)", out)
    bound = table()["fuzz"]["float32"]["rounding"] * moved_by_noise(program, inputs, exact)
    if code == 1 and said and float(said[1]) <= bound:
        return "built: beyond the tolerance, as noise of one rounding is"
    raise Finding("wrong run" if code == 1 else f"exit {code}", f"{errors.strip()}\n{out.strip()}"[-3000:])
