"""The same input gives the same bytes: in other folders, other processes, under other hash seeds."""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from deployer import pipeline
from deployer.commands.ending import report
from deployer.core import target
from deployer.running import build
from DeployTest.support.building.cases import case_dir
from DeployTest.support.building.command_line import generated, script

pytestmark = [pytest.mark.host, pytest.mark.training]
L_OUTER = ("autoencoder", ["--l1", "8000", "--l2", "40000", "--defaultMemLevel", "L3"])
CASES = [
    pytest.param("simple_mlp", ["--l1", "2000"], id="simple_mlp"),
    pytest.param("autoencoder", ["--l1", "16000", "--doublebuffer"], id="autoencoder", marks=pytest.mark.slow),
    pytest.param(*L_OUTER, id="autoencoder from L3", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("test", "flags"), CASES)
def test_two_folders(test: str, flags: list[str], models_root: Path, tmp_path: Path) -> None:
    """C, plan, tiling and input are the same bytes from another folder, process, hash seed and time zone."""
    case = case_dir(test, models_root)
    outputs = []
    for name, seed in (("one", "1"), ("another/deeper", "4242")):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        words = ["-t", case, "-o", "c", "--skipsim", *flags]
        done = script(
            "testMVPTraining", *words, cwd=folder, environment={"PYTHONHASHSEED": seed, "TZ": f"UTC{seed[0]}"}
        )
        assert done.returncode == 0, done.stderr
        outputs.append(generated(folder / "c"))
    assert {"TrainingNetwork.c", "OptimizerNetwork.c", "plan.json", "tiling.json", "input.bin"} <= set(outputs[0])
    assert outputs[0] == outputs[1]
    for name in ("plan.json", "tiling.json"):
        text = outputs[0][name].decode()
        assert str(case) not in text
        assert not re.search(r'"[^"]*(/tmp/|/home/|/root/|/work/)[^"]*"', text), f"{name} holds a path"
        assert not re.search(r"\b20\d\d-\d\d-\d\d|\d\d:\d\d:\d\d", text), f"{name} holds a time"


def test_folders_list_their_files_in_any_order(
    models_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The linked files, and the inputs in a report of a fault, are sorted by name."""
    case = pipeline.load_training(case_dir("autoencoder", models_root))
    plan = pipeline.plan_program(case.program, pipeline.accumulate_of(case, pipeline.Options("siracusa", "single")))[1]
    tools = build.toolchain(target.load("siracusa"))
    for name in ("b/d.onnx", "b/c.onnx", "e.onnx", "a.onnx"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    outputs, made = [], tmp_path.parent / f"{tmp_path.name}-made"
    for backward in (False, True):
        for listing in ("iterdir", "glob"):
            monkeypatch.setattr(Path, listing, in_order(getattr(Path, listing), backward))
        sources = build.lasting_sources(plan, tools, tmp_path, made)
        outputs.append((sources, report(ValueError("fault"), ["train", str(tmp_path)])))
        monkeypatch.undo()
    assert outputs[0] == outputs[1]
    functions = [
        (source.stem, "") if source.parent.name == "kernels" else (source.parent.name, source.stem)
        for source in outputs[0][0]
        if "kernels" in source.parts[-3:]
    ]
    assert functions == sorted({(step.kernel.symbol, step.variant) for step in plan.steps})
    assert outputs[0][1].count("input: ") == 4


def in_order(listing: Callable[..., Iterable[Path]], backward: bool) -> Callable[..., Iterator[Path]]:
    """The method `listing` of Path with its results in ascending or in descending order."""
    return lambda *arguments: iter(sorted(listing(*arguments), reverse=backward))


def test_generator_repeats(tmp_path: Path) -> None:
    """A generated case is the same graphs and arrays each time."""
    from DeployTest.models import simple_mlp

    folders = [simple_mlp.generate(tmp_path / name).parent for name in ("a", "b")]
    files = [sorted(p.relative_to(f) for p in f.rglob("*.onnx")) for f in folders]
    assert files[0] == files[1]
    assert len(files[0]) == 3
    for name in files[0]:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
