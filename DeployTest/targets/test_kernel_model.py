"""A target has a kernel model: its own, the one of the target that it inherits, or the default; plans follow it."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from deployer import pipeline
from deployer.core import target as targets
from deployer.core.plan import Options, Plan
from deployer.core.target import DEFAULT_MODEL, TARGETS_DIR, TargetInvalid
from deployer.frontend import check, parse
from DeployTest.support.building.cases import case_dir
from DeployTest.support.building.command_line import deployer
from DeployTest.support.graphs.small_graphs import chain, constant, node

pytestmark = [pytest.mark.host]
BASE = "siracusa"
OTHERS = ("plain", "wide")
"""Targets that inherit the host, which inherits the base: without a kernel model, and with one of blocks of eight."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data of all targets, and of two more that inherit the host."""
    root = tmp_path / "targets"
    shutil.copytree(TARGETS_DIR, root, ignore=shutil.ignore_patterns("*.[chS]", "*.ld", "*.py", "__pycache__"))
    _, toolchain = (root / "host.toml").read_text().split("[toolchain]")
    for name in OTHERS:
        head = f'name = "{name}"\ndescription = "Blocks of its own"\ninherits = "host"\n'
        (root / f"{name}.toml").write_text(f"{head}\n[toolchain]{toolchain}")
    write_model(root, "wide", ("block", "8"))
    monkeypatch.setattr(targets, "TARGETS_DIR", root)
    return root


def write_model(root: Path, name: str, *numbers: tuple[str, str]) -> None:
    """Give the target a file: the default model with other numbers, or without a key where a number is empty."""
    text = DEFAULT_MODEL.read_text()
    for key, number in numbers:
        text, count = re.subn(rf"^{key} = .*", f"{key} = {number}" if number else "", text, flags=re.MULTILINE)
        assert count == 1, key
    (root / name).mkdir(exist_ok=True)
    (root / name / DEFAULT_MODEL.name).write_text(text)


def plan_of(target: str, folder: Path) -> Plan:
    """The plan of a product and a convolution on a target."""
    shapes = {"k": (8, 8, 3, 3), "w": (64, 64)}
    weights = tuple(constant(name, np.full(shape, 0.5, np.float32)) for name, shape in shapes.items())
    model = chain(
        node("Conv", ("x", "k"), ("c",), kernel_shape=[3, 3], pads=[1] * 4),
        node("MatMul", ("c", "w"), ("y",)),
        x=(1, 8, 8, 64),
        initializers=weights,
    )
    program = check.check_program(parse.read_graphs(model.save(folder / "network.onnx"), None))
    return pipeline.plan_program(program, Options(target, "auto", {"L1": 8000}))[1]


def tiles(plan: Plan) -> list[tuple[int, ...]]:
    """Tile lengths of each step."""
    return [tuple(dim.tile for dim in step.dims) for step in plan.steps]


def test_a_model_is_own_inherited_or_default(folder: Path) -> None:
    """A file of its own comes first, then the one of the target that it inherits; without either it is the default."""
    found = {name: targets.load(name) for name in ("host", BASE, "host_flat", *OTHERS)}
    assert {name: t.model_of for name, t in found.items()} == {
        "host": BASE,
        BASE: BASE,
        "host_flat": "",
        "plain": BASE,
        "wide": "wide",
    }
    assert {name for name, t in found.items() if t.kernel_model.block == 8} == {"wide"}
    assert found["host"].kernel_model == found["plain"].kernel_model == found[BASE].kernel_model
    write_model(folder, BASE, ("line_mac_cost", "2.5"))
    assert {n for n in found if targets.load(n).kernel_model.line_mac_cost == 2.5} == {"host", BASE, "plain"}


def test_plans_follow_the_model(folder: Path, tmp_path: Path) -> None:
    """Larger blocks make other tiles and cycles; without a file they are those of the inherited target."""
    base, plain, wide = (plan_of(name, tmp_path) for name in (BASE, *OTHERS))
    assert (tiles(plain), [s.cycles for s in plain.steps]) == (tiles(base), [s.cycles for s in base.steps])
    assert all(mine.cycles != theirs.cycles for mine, theirs in zip(wide.steps, base.steps, strict=True))
    assert tiles(wide) != tiles(base)


def test_the_model_decides_the_code_of_few_products(folder: Path, tmp_path: Path) -> None:
    """`few_macs` selects a kernel's shortest code: an argument of the kernel changes with it."""
    write_model(folder, "wide", ("few_macs", "0"))
    few, none = (_single(name, tmp_path) for name in OTHERS)
    assert (few, none) == (2.0, 1.0)


def _single(target: str, folder: Path) -> float:
    weights = (constant("w", np.full((20, 12), 0.5, np.float32)),)
    model = chain(node("MatMul", ("x", "w"), ("y",)), x=(1, 20), initializers=weights)
    program = check.check_program(parse.read_graphs(model.save(folder / "few.onnx"), None))
    [step] = pipeline.plan_program(program, Options(target, "auto"))[1].steps
    value = step.args["single"]
    return float(getattr(value, "value", -1))


@pytest.mark.parametrize(
    ("key", "number", "fault"),
    [
        ("block", "", "kernel_model lacks 'block'"),
        ("block", "0", "kernel_model.block is 0, and not at least 1"),
        ("cores_assumed", "-8", "kernel_model.cores_assumed is -8, and not at least 1"),
        ("block_overhead", "[6, -3, 2]", "kernel_model.block_overhead is (6, -3, 2), and not at least 0"),
        ("line_mac_cost", "nan", "kernel_model.line_mac_cost is nan, and not at least 0"),
        ("line_mac_cost", "inf", "kernel_model.line_mac_cost is inf, and not at least 0"),
        ("block_overhead", "[6, 3]", "kernel_model.block_overhead: "),
        ("few_macs", '"few"', "kernel_model.few_macs: "),
        ("narrow_outputs", "16\nwide_outputs = 32", "kernel_model has no key 'wide_outputs'"),
        ("few_macs", "99999999999999999999", "kernel_model.few_macs is 99999999999999999999, beyond"),
    ],
)
def test_faults_of_a_model(key: str, number: str, fault: str, folder: Path) -> None:
    """A message names the key and what is wrong, for targets that inherit the model, too."""
    write_model(folder, BASE, (key, number))
    for name in (BASE, "plain"):
        with pytest.raises(TargetInvalid) as caught:
            targets.load(name)
        assert fault in str(caught.value)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("host", "prediction: kernel costs and kernel model of target siracusa"),
        ("wide", "prediction: kernel costs of target siracusa, kernel model of target wide"),
        (
            "host_flat",
            "prediction: kernel costs of target host_flat, default kernel model (targets/common/kernel_model.toml)",
        ),
    ],
)
def test_reports_say_whose_model_it_is(
    target: str, said: str, folder: Path, models_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A report names the targets whose costs and whose kernel model its predictions come from."""
    assert deployer("train", "-t", case_dir("simple_mlp", models_root), "-p", target, "-o", tmp_path / "c") == 0
    assert said in " ".join(capsys.readouterr().out.split())
