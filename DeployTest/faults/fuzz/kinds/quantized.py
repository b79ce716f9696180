"""Quantized files: drawn layers of 8 bits against integers in numpy and ONNX Runtime; some edited, some built."""

from collections.abc import Mapping
from unittest import mock

import numpy as np
import onnx
from onnx import NodeProto

from deployer.core.ir import Program
from deployer.frontend import check, parse
from deployer.training import train_graph
from deployer.verify.program import verify_program
from deployer.verify.reference import run_inference
from DeployTest.faults.fuzz.building import command
from DeployTest.faults.fuzz.output_text import random_words
from DeployTest.faults.fuzz.reference import session
from DeployTest.faults.fuzz.register import kind
from DeployTest.faults.fuzz.trial import Finding, Refused, Trial, contained
from DeployTest.quantized import judge
from DeployTest.quantized.drawn import DrawnNet, drawn

from .graph import prepare, shown
from .training import build as build_training

Array = np.ndarray
NEAR = 1e-3
"""So near to the middle between two numbers, in steps, floats of ONNX Runtime may fall to the other side."""
SUMS = ("QLinearConv", "QGemm", "QLinearMatMul")
SATURATING = {("uint8", "int8")}
"""Types of activations and weights whose products some of its kernels sum in pairs of 16 bits, which saturate."""


@kind(4)
def quantized(trial: Trial) -> str:
    """A drawn file over 8 bits, which must be accepted, and mean what integers say."""
    net = drawn(trial.draw("net"))
    path = trial.case / "network.onnx"
    path.write_bytes(net.model().SerializeToString())
    try:
        program = read(trial)
    except Exception as error:  # a drawn file has to be read, whatever else it ends with is a finding
        raise Finding("refused", f"{error}\n{shown(path)}") from error
    due = judge.values_of(net.meaning, {**net.constants, "x": net.feed})
    found = run_inference(program, {"x": net.feed.astype(program.tensors["x"].type.dtype)})
    different(found["y"], due["y"], "y", shown(path))
    if trial.build:
        return build(trial, net, {"y": due["y"], "logits": found["logits"].astype(np.float32)})
    return by_runtime(trial, net)


@kind(4)
def quantized_edited(trial: Trial) -> str:
    """A drawn file over 8 bits with up to four structural edits."""
    model = drawn(trial.draw("net")).model()
    prepare(trial, model)
    trial.edit("graph", model)
    (trial.case / "network.onnx").write_bytes(model.SerializeToString())
    verify_program(read(trial))
    return "not built: no results are due" if trial.build else "read"


def read(trial: Trial) -> Program:
    """The program of the input's file."""
    with contained(trial):
        return check.check_program(parse.read_graphs(trial.case / "network.onnx", None))


def different(ours: Array, due: Array, name: str, text: str) -> None:
    """Finding where an element differs at all."""
    wrong = ours.astype(np.float32) != due
    if ours.shape != due.shape or wrong.any():
        raise Finding("different", f"integers: {np.count_nonzero(wrong)} of {due.size}\n{name}\n{text}")


def by_runtime(trial: Trial, net: DrawnNet) -> str:
    """Compare each operator over 8 bits with what ONNX Runtime made of the same numbers in the file."""
    path = trial.case / "seen.onnx"
    path.write_bytes(net.model(seen=True).SerializeToString())
    trial.phase("onnxruntime")
    try:
        runtime = session(path)
        names = [output.name for output in runtime.get_outputs()]
        theirs = dict(zip(names, runtime.run(None, {"x": net.feed}), strict=True))
    except Exception as error:  # ONNX Runtime has no common type of its errors
        if "NOT_IMPLEMENTED" in str(error):
            return "onnxruntime has no kernel for it"
        raise Finding("onnxruntime refuses", f"{str(error)[:400]}\n{shown(path)}") from error
    finally:
        trial.phase("")
    given = {**net.constants, "x": net.feed, **theirs}
    ties = 0
    for node in net.meaning:
        if node.output[0] not in theirs:  # what a Clip reads, or the floats of the end
            given[node.output[0]] = judge.result_of(node, given)
            continue
        ties += _ties(node, given, theirs, net, shown(path))
    return f"equal to onnxruntime{', but for ties' if ties else ''}"


def _ties(node: NodeProto, given: Mapping[str, Array], theirs: Mapping[str, Array], net: DrawnNet, text: str) -> int:
    """The number of elements that are one number off, all nearly between two; Finding for others."""
    quotients = []

    def noted(values: Array, zero: Array) -> Array:
        quotients.append(np.asarray(values, np.float64))
        return saturated(values, zero)

    saturated, made = judge.saturated, {n.output[0]: n for n in net.meaning}
    source = made.get(node.input[0], node) if node.op_type == "Clip" else node
    with mock.patch.object(judge, "saturated", noted):
        judge.result_of(source, given)
    ours, other = judge.result_of(node, given), theirs[node.output[0]]
    off = np.abs(ours.astype(np.int64) - other.astype(np.int64))
    if not off.any():
        return 0
    if node.op_type in SUMS and not net.qdq and _saturates(node, given):
        return 0
    values = quotients[-1] if len(quotients) == 1 else np.full(off.shape, 0.5)
    near = np.abs(np.abs(values - np.floor(values)) - 0.5) < NEAR
    if (off > 1).any() or (off.astype(bool) & ~near).any():
        at = int(np.argmax(np.where(near, 0, off)))
        raise Finding(
            "different",
            f"from onnxruntime: {node.op_type}\n{off.reshape(-1)[at]} off at {values.reshape(-1)[at]!r}, "
            f"{np.count_nonzero(off)} of {off.size} differ: {list(node.input)}\n{text}",
        )
    return int(np.count_nonzero(off))


def _saturates(node: NodeProto, given: Mapping[str, Array]) -> bool:
    return (given[node.input[0]].dtype.name, given[node.input[3]].dtype.name) in SATURATING


def build(trial: Trial, net: DrawnNet, due: Mapping[str, Array]) -> str:
    """Run the file in two memories of the simulator and without levels, or train its head."""
    draw = trial.draw("build")
    if draw.chance(0.4):
        return train(trial, net)
    np.savez(trial.case / "inputs.npz", allow_pickle=False, x=net.feed)
    np.savez(trial.case / "outputs.npz", allow_pickle=False, **due)
    runs = [["-p", "host", *random_words(draw)], ["-p", "host", *random_words(draw)], ["-p", "host_flat"]]
    passed = 0
    for words in runs:
        code, out, errors = command(trial, ["infer", "-t", trial.case, "-o", trial.work / "out", *words], programs=True)
        if code not in (0, 2):
            raise Finding("wrong run" if code == 1 else f"exit {code}", f"{words}\n{errors}\n{out}"[-3000:])
        passed += code == 0
    return "built and passed" if passed else "not built: refused"


def train(trial: Trial, net: DrawnNet) -> str:
    """Train the head alone; what is in front is frozen."""
    model: onnx.ModelProto = net.model()
    del model.graph.output[0]
    path = trial.case / "network.onnx"
    path.write_bytes(model.SerializeToString())
    draw = trial.draw("train")
    with contained(trial):
        report = train_graph.build_train_graph(
            path, "mse", draw.one(("sgd", "adam")), 0.01, "head", trial.work, samples=draw.number(1, 3), n_accum=2
        )
    path.unlink()
    for folder in (report.train, report.optimizer):
        folder.rename(trial.case / folder.name)
    try:
        return build_training(trial)
    except Refused as error:
        raise Finding("refused", str(error)) from error
