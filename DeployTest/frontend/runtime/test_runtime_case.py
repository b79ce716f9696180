"""Folders with ONNX Runtime's artifacts as cases: where parameters, data and results come from, and what is refused."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from deployer import pipeline
from deployer.core import artefact
from deployer.core.errors import DatasetMismatch, FileProblem, OptionProblem
from deployer.core.plan import Plan
from deployer.frontend.runtime.checkpoint import read_checkpoint
from DeployTest.support.building.command_line import bits, deployer, refused
from DeployTest.support.graphs.runtime_cases import (
    ADAMW,
    EACH,
    PASSES,
    RATE,
    SGD,
    SIZES,
    TRAIN,
    Artifacts,
    adamw,
    checkpoint,
    forward_model,
    initial,
    samples,
    trained,
)
from DeployTest.support.graphs.small_graphs import raises, value
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host, pytest.mark.training]
FLAGS = ("--lr", RATE, "--accumulate-grad-batches", EACH)


def archive(**arrays: Any) -> bytes:
    """The bytes of an npz."""
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def loaded(folder: Path, **options: Any) -> pipeline.Case:
    """The case in a folder, at RATE with EACH passes per update."""
    return pipeline.load_training(folder, **{"n_accum": EACH, "learning_rate": RATE} | options)


def results(optimizer: str) -> dict[str, Any]:
    """Return the content of expected.npz: the losses and parameters of the numpy training."""
    losses, final = trained(ADAMW if optimizer == "adamw" else None)
    return {"loss": np.array(losses, np.float32), **{name: final[name].astype(np.float32) for name in SIZES}}


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_case_trains(optimizer: str, tmp_path: Path) -> None:
    """Losses and parameters of a folder are those of a numpy training, AdamW's moments and count of updates too."""
    graph = {"sgd": SGD, "adamw": adamw()}[optimizer]
    case = Artifacts(optimizer=graph, expected=results(optimizer))
    dump = tmp_path / "dump.npz"
    words = ("train", "-t", case.write(tmp_path / "case"), "-o", tmp_path / "c", "--dump", dump, *FLAGS)
    assert deployer(*words) == 0
    losses, final = trained(ADAMW if optimizer == "adamw" else None)
    with np.load(dump) as found:
        assert_close("MSELoss", found["loss"], np.array(losses))
        assert sorted(found.files) == sorted({*final, "loss"})
        for name, array in final.items():
            assert_close("Gemm", found[name], array)
    assert optimizer == "sgd" or final["step"] == [PASSES // EACH]


FORMS = {
    "decay first": {"adam_mode": 0, "weight_decay": 0.25},
    "decay last": {"weight_decay": 0.25, "epsilon": 0.0078125},
    "uncorrected": {"correct_bias": 0, "alpha": 0.5, "beta": 0.75},
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_adamw(form: str, tmp_path: Path) -> None:
    """The reference of each form is the numpy training."""
    folder = Artifacts(optimizer=adamw(**FORMS[form])).write(tmp_path)
    case = loaded(folder)
    losses, final = trained(ADAMW | FORMS[form])
    assert case.dataset is not None
    assert_close("MSELoss", np.array(case.dataset.expected_losses), np.array(losses))
    for name, array in final.items():
        assert_close("Gemm", case.expected[name], array)


def test_state_at_every_level(tmp_path: Path) -> None:
    """Moments that are resident, double-buffered, or spilled to the outermost level have the same bits."""
    folder, contents, levels = Artifacts(optimizer=adamw()).write(tmp_path / "case"), [], set[str]()
    budgets = ((), ("--l1", 600, "--doublebuffer"), ("--l1", 600, "--l2", 400, "--defaultMemLevel", "L3"))
    for i, words in enumerate(budgets):
        out, dump = tmp_path / str(i), tmp_path / f"{i}.npz"
        assert deployer("train", "-t", folder, "-o", out, "--dump", dump, *FLAGS, *words) == 0
        levels |= {home.level for home in artefact.load(Plan, out / "plan.json").homes if "_moment" in home.storage}
        contents.append(bits(dump))
    assert contents[0] == contents[1] == contents[2]
    assert levels == {"L1", "L2", "L3"}


def test_update_in_the_pass(tmp_path: Path) -> None:
    """`--fused` counts and updates behind each pass; the optimizer alone begins with its initial state."""
    folder = Artifacts(optimizer=adamw()).write(tmp_path / "case")
    for command, words in (("train", ("--fused",)), ("optimizer", ())):
        assert deployer(command, "-t", folder, "-o", tmp_path / command, "--lr", RATE, *words) == 0


def _parameter_files(folder: Path) -> dict[str, dict[str, bytes]]:
    weights = initial()
    first, rest = {"fc0.weight": weights["fc0.weight"]}, {n: a for n, a in weights.items() if n != "fc0.weight"}
    return {
        "checkpoint": {"checkpoint": checkpoint(weights)},
        "frozen there": {"checkpoint": checkpoint(rest, first)},
        "forward model": {"forward.onnx": forward_model(weights, folder)},
        "archive": {"parameters.npz": archive(**weights)},
        "several": {"checkpoint": checkpoint(weights), "model.onnx": forward_model(weights, folder)},
        "parts": {"checkpoint": checkpoint(first), "other.npz": archive(**rest)},
    }


@pytest.mark.parametrize("kind", ["checkpoint", "frozen there", "forward model", "archive", "several", "parts"])
def test_sources_of_parameters(kind: str, tmp_path: Path) -> None:
    """Whichever files hold them, the parameters are the same."""
    case = loaded(Artifacts(parameters=_parameter_files(tmp_path)[kind]).write(tmp_path / "case"))
    assert case.dataset is not None
    for name, array in initial().items():
        np.testing.assert_array_equal(case.dataset.weights[name], array)


def test_frozen_parameters_first(tmp_path: Path) -> None:
    """A parameter that is not trained is none of the data, wherever it stands, and needs no result."""
    scale = value("scale", (5,))
    train = replace(TRAIN, inputs=(TRAIN.inputs[0], TRAIN.inputs[1], scale, *TRAIN.inputs[2:]))
    weights = {"checkpoint": checkpoint(initial(), {"scale": np.ones(5, np.float32)})}
    case = loaded(Artifacts(train=train, parameters=weights, expected=results("sgd")).write(tmp_path))
    assert case.program.data == ("x", "labels")
    assert case.note == "expected.npz"


def test_results_are_optional(tmp_path: Path) -> None:
    """Values missing in expected.npz come from the float64 reference; values in it count."""
    losses, _ = trained()
    off = np.array(losses, np.float32) + np.float32(0.5)
    rows: list[tuple[dict[str, Any] | None, str]] = [
        (None, "the float64 reference (there is no expected.npz)"),
        ({"loss": off}, "expected.npz, and the float64 reference for what it does not record"),
        ({}, "expected.npz, and the float64 reference for what it does not record"),
        (results("sgd"), "expected.npz"),
    ]
    for i, (expected, note) in enumerate(rows):
        case = loaded(Artifacts(expected=expected).write(tmp_path / str(i)))
        assert case.note == note
        assert not case.notes, "sums over full updates need no word"
        assert case.dataset is not None
        wanted = off if expected and "fc0.weight" not in expected else np.array(losses)
        assert_close("MSELoss", np.array(case.dataset.expected_losses), wanted)
        assert set(SIZES) <= set(case.expected)


def test_other_numbers_of_passes(tmp_path: Path) -> None:
    """Passes beyond those in data.npz repeat them; results count as far as they are of the same run."""
    folder = Artifacts(expected=results("sgd")).write(tmp_path)
    for steps in (2, PASSES + 2):
        case = loaded(folder, n_steps=steps)
        assert case.dataset is not None
        assert len(case.dataset.expected_losses) == case.passes == steps
        assert case.note.endswith("does not record") == (steps > 0)


def _cut(name: str, keep: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> dict[str, Any]:
    return samples() | {name: keep(samples()[name])}


def _weights(**changed: Any) -> dict[str, bytes]:
    return {"parameters.npz": archive(**{n: a for n, a in (initial() | changed).items() if a is not None})}


FAULTS: dict[str, tuple[dict[str, Any], type[Exception], tuple[str, ...]]] = {
    "data name": (
        {"data": {"x": samples()["x"], "label": samples()["labels"]}},
        DatasetMismatch,
        ("data.npz holds 'label'", "int64[6, 4]", "x, labels", "rename it"),
    ),
    "data missing": (
        {"data": {"x": samples()["x"]}},
        DatasetMismatch,
        ("data.npz: 'labels'", "is missing", "int32[6,4]", "found"),
    ),
    "data shape": (
        {"data": _cut("x", lambda a: a[:, :, :4])},
        DatasetMismatch,
        ("data.npz: 'x'", "float32[6,4,5]", "float32[6, 4, 4]"),
    ),
    "data without passes": (
        {"data": _cut("x", lambda a: a[0])},
        DatasetMismatch,
        ("data.npz has 4 passes of 'x' and 6 passes of 'labels'", "first axis"),
    ),
    "data dtype": (
        {"data": _cut("labels", lambda a: a.astype(np.float32))},
        DatasetMismatch,
        ("data.npz: 'labels'", "another dtype", "float32[6, 4]"),
    ),
    "data count": (
        {"data": _cut("labels", lambda a: a[:5])},
        DatasetMismatch,
        ("data.npz has 6 passes of 'x' and 5 passes of 'labels'",),
    ),
    "data empty": ({"data": {n: a[:0] for n, a in samples().items()}}, DatasetMismatch, ("0 passes of 'x'",)),
    "label": ({"data": _cut("labels", lambda a: a + 1)}, DatasetMismatch, ("data.npz: sample", "holds label 3")),
    "parameter name": (
        {"parameters": _weights(**{"fc0.weights": initial()["fc0.weight"], "fc0.weight": None})},
        DatasetMismatch,
        ("parameters.npz holds 'fc0.weights'", "float32[6, 5]", "fc0.weight"),
    ),
    "parameter missing": (
        {"parameters": _weights(**{"fc1.bias": None})},
        DatasetMismatch,
        ("holds parameter 'fc1.bias'", "float32[3]", "parameters.npz", "checkpoint"),
    ),
    "first parameter missing": (
        {"parameters": _weights(**{"fc0.weight": None})},
        DatasetMismatch,
        ("holds parameter 'fc0.weight'", "float32[6,5]"),
    ),
    "no parameters": ({"parameters": {}}, DatasetMismatch, ("holds parameter 'fc0.weight'", "none")),
    "parameter shape": (
        {"parameters": _weights(**{"fc0.weight": initial()["fc0.weight"].T})},
        DatasetMismatch,
        ("parameters.npz: 'fc0.weight'", "float32[6,5]", "float32[5, 6]"),
    ),
    "parameter dtype": (
        {"parameters": _weights(**{"fc0.bias": np.zeros(6, np.int64)})},
        DatasetMismatch,
        ("parameters.npz: 'fc0.bias'", "int64[6]"),
    ),
    "parameters disagree": (
        {"parameters": _weights(**{"fc0.bias": np.ones(6, np.float32)}) | {"checkpoint": checkpoint(initial())}},
        DatasetMismatch,
        ("checkpoint and", "parameters.npz hold different values of parameter 'fc0.bias'", "1, 1, 1", "out of the"),
    ),
    "result name": (
        {"expected": {"losses": np.zeros(PASSES, np.float32)}},
        DatasetMismatch,
        ("expected.npz holds 'losses'", "loss, fc0.weight"),
    ),
    "result count": (
        {"expected": {"loss": np.zeros(PASSES - 1, np.float32)}},
        DatasetMismatch,
        ("expected.npz: 'loss'", "float32[6]", "float32[5]"),
    ),
    "result shape": (
        {"expected": {"fc1.bias": np.zeros(4, np.float32)}},
        DatasetMismatch,
        ("expected.npz: 'fc1.bias'", "float32[3]", "float32[4]"),
    ),
    "result dtype": (
        {"expected": {"fc1.bias": np.zeros(3, np.int64)}},
        DatasetMismatch,
        ("expected.npz: 'fc1.bias'", "another dtype"),
    ),
    "damaged archive": ({"parameters": {"parameters.npz": b"PK"}}, FileProblem, ("parameters.npz", "truncated")),
    "damaged model": ({"parameters": {"forward.onnx": b"?"}}, FileProblem, ("forward.onnx", "truncated")),
    "no checkpoint": ({"parameters": {"checkpoint": b"????????"}}, FileProblem, ("not a checkpoint", "8 B")),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_named(name: str, tmp_path: Path) -> None:
    """A misfit is an error with file, array, numbers and a remedy."""
    parts, kind, texts = FAULTS[name]
    folder = Artifacts(**parts).write(tmp_path)
    with raises(kind, *texts) as caught:  # type: ignore[arg-type]
        loaded(folder)
    assert caught.value.hint  # type: ignore[attr-defined]


def test_missing_files(tmp_path: Path) -> None:
    """Each file of a case that is absent is named."""
    for name in ("optimizer_model.onnx", "data.npz"):
        folder = Artifacts().write(tmp_path / name)
        (folder / name).unlink()
        with raises(FileProblem, f"{name} does not exist"):
            loaded(folder)


def test_missing_rate(tmp_path: Path) -> None:
    """The graph has no rate, ONNX Runtime's own is set where it runs; here the command line gives it."""
    with raises(OptionProblem, "'learning_rate'", "no value", "--lr"):
        loaded(Artifacts().write(tmp_path), learning_rate=None)


def test_dump_leaves_the_case_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An archive beside the artifacts would be read as parameters."""
    folder = Artifacts().write(tmp_path / "case")
    words = ("train", "-t", folder, "-o", tmp_path / "c", *FLAGS)
    assert "is part of the case" in refused(capsys, *words, "--dump", folder / "final.npz")


def test_compile(tmp_path: Path) -> None:
    """`deployer compile` knows the folder as a training case, too."""
    folder = Artifacts().write(tmp_path / "case")
    assert deployer("compile", "-t", folder, "-o", tmp_path / "c", *FLAGS) == 0
    assert (tmp_path / "c" / "OptimizerNetwork.c").exists()


def test_damaged_checkpoints(tmp_path: Path) -> None:
    """Whatever bytes are cut or changed, what is read are arrays, or the file is named."""
    path, whole = tmp_path / "checkpoint", checkpoint(initial(), {"frozen": np.arange(3)})
    path.write_bytes(whole)
    np.testing.assert_array_equal(read_checkpoint(path)["frozen"], np.arange(3))
    draw, refusals = np.random.default_rng(3), 0
    for trial in range(600):
        content = bytearray(whole)
        for _ in range(int(draw.integers(1, 4))):
            content[int(draw.integers(8, len(content)))] = int(draw.integers(256))
        path.write_bytes(bytes(content[: int(draw.integers(len(content)))] if trial % 3 == 0 else content))
        try:
            read_checkpoint(path)
        except (FileProblem, DatasetMismatch):
            refusals += 1
    assert refusals > 100
