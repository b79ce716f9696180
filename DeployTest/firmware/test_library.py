"""Libraries in programs: the bits of the usual run, predictions between passes, what is refused, clean builds."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from deployer import pipeline
from deployer.core.target import native
from deployer.fitting.export import export_weights
from deployer.training.samples import write_npz
from DeployTest.firmware import nets
from DeployTest.support.building.command_line import deployer
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training]
HERE = Path(__file__).parent
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wcast-align", "-Wdouble-promotion", "-Werror")
FROM_C = {"fmaf", "memcpy", "memset", "strcmp"}
"""What a library takes of C's; of the math library nothing but the fused operation."""
Arrays = Mapping[str, "np.ndarray[Any, Any]"]


def packaged(name: str, case: Path, folder: Path, *words: object) -> Path:
    """Make a case a library."""
    assert deployer("package", case, "--name", name, "-o", folder, *words) == 0
    return folder


def ran(*words: object) -> str:
    """Run a command that must succeed, and return its output."""
    run = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def manifest(folder: Path) -> Any:
    """Read a library's manifest."""
    return json.loads((folder / "manifest.json").read_text())


def state_of(folder: Path, image: bytes) -> dict[str, "np.ndarray[Any, Any]"]:
    """The tensors of a saved state, at the places that the manifest says."""
    return {
        t["name"]: np.frombuffer(image, t["type"], int(np.prod(t["shape"])), t["at"]).reshape(t["shape"])
        for t in manifest(folder)["state"]
    }


def trained(case: Path, folder: Path, *more: object) -> dict[str, "np.ndarray[Any, Any]"]:
    """The losses and final weights of the usual run."""
    words = (
        "train",
        "-t",
        case,
        "-p",
        native().name,
        "-o",
        folder,
        "--dump",
        folder / "out.npz",
        "--check-passes",
        "none",
        *more,
    )
    assert deployer(*words) == 0
    with np.load(folder / "out.npz") as arrays:
        return dict(arrays)


def same_bits(found: Arrays, expected: Arrays, names: Sequence[str]) -> None:
    """Each array of these names has the bits it has in the other set."""
    for name in names:
        assert found[name].tobytes() == expected[name].tobytes(), name


def check_symbols(library: Path, name: str) -> None:
    """All that others can link to has the prefix, nothing is written, and of C nothing is called but what computes."""
    rows = [line.split() for line in ran("nm", library).splitlines() if line and not line.endswith(":")]
    shared = {row[-1] for row in rows if row[-2] in "TRDBC"}
    assert shared
    assert all(symbol.startswith(f"{name}_") for symbol in shared)
    assert {row[-1] for row in rows if row[-2] == "U"} - shared <= FROM_C
    sections = [
        line.split()[:2] for line in ran("size", "-A", library).splitlines() if line.startswith((".data ", ".bss "))
    ]
    assert sections
    assert all(size == "0" for _, size in sections)


def test_two_in_one_program(tmp_path: Path) -> None:
    """Two libraries and five structs, predictions between passes and before updates, moved states: the usual bits."""
    cases = {"dense": nets.dense_case(tmp_path / "a"), "normed": nets.normed_case(tmp_path / "b")}
    folders = {name: packaged(name, case, tmp_path / f"lib_{name}") for name, case in cases.items()}
    flags = ["-O1", *WARNINGS]
    for name, folder in folders.items():
        ran("make", "-s", "-C", folder, f"build/lib{name}.a", f"CFLAGS={' '.join(flags)}")
        check_symbols(folder / f"build/lib{name}.a", name)
    libraries = [f"{folder}/build/lib{name}.a" for name, folder in folders.items()]
    includes = [f"-I{folder}/include" for folder in folders.values()]
    sizes = [f"-D{name.upper()}_STRUCT={manifest(folder)['bytes']['struct']}" for name, folder in folders.items()]
    ran("gcc", "-std=c11", *flags, *sizes, *includes, HERE / "check.c", *libraries, "-lm", "-o", tmp_path / "check")
    ran("g++", "-std=c++17", *flags, *includes, HERE / "check.cpp", *libraries, "-lm", "-o", tmp_path / "check_cpp")
    ran(tmp_path / "check_cpp")
    for folder, name in zip(folders.values(), folders, strict=True):
        ran("gcc", "-std=c99", "-pedantic", *flags, "-fsyntax-only", "-xc", folder / f"include/{name}.h")
    samples = [pipeline.load_training(case).dataset for case in cases.values()]
    written = [a.tobytes() for data in samples if data for k in range(nets.PASSES) for a in data.sample(k)]
    (tmp_path / "samples").write_bytes(b"".join(written))
    ran(tmp_path / "check", *(tmp_path / name for name in ("samples", "results", "dense", "normed")))
    results = np.fromfile(tmp_path / "results", np.float32)
    losses = results[: 2 * nets.PASSES].reshape(2, nets.PASSES)
    states = {name: state_of(folder, (tmp_path / name).read_bytes()) for name, folder in folders.items()}
    for found, (name, case) in zip(losses, cases.items(), strict=True):
        usual = trained(case, tmp_path / f"run_{name}")
        same_bits({"loss": found, **states[name]}, usual, sorted(usual))
    check_scores(results[2 * nets.PASSES :], states["normed"], cases["normed"], tmp_path)


def check_scores(scores: Any, state: Arrays, case: Path, folder: Path) -> None:
    """ONNX Runtime predicts the same by the model with these weights, without its dropout, with running statistics."""
    write_npz(folder / "state.npz", dict(state))
    export_weights(case.parent / "normed.onnx", folder / "state.npz", folder / "trained.onnx")
    proto = onnx.load(folder / "trained.onnx")
    nodes = {node.name: node for node in proto.graph.node}
    del nodes["norm"].output[1:], nodes["norm"].attribute[:], nodes["drop"].input[1:]
    data = pipeline.load_training(case).dataset
    assert data is not None
    [expected] = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {nets.INPUT: data.sample(0)[0]})
    assert not (state["mean"] == 0).any(), "statistics ran"
    np.testing.assert_allclose(scores.reshape(expected.shape), expected, **table()["several"]["float32"])
