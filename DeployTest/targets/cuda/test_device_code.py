"""Device code of libraries: PTX that rounds as C does, assembled for machines, and errors without the tools."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from deployer.core.errors import ToolFailed, ToolMissing
from deployer.racks import ptx, tools
from deployer.racks.device_code import assemble, build_ptx
from deployer.racks.launch import most_lanes
from deployer.racks.library import RackLibrary
from DeployTest.firmware.test_library import packaged
from DeployTest.support.building.cases import case_dir
from DeployTest.targets.cuda import racks
from DeployTest.targets.cuda.racks import RULES

pytestmark = [pytest.mark.host]
needs_tools = pytest.mark.skipif(bool(racks.lacking()), reason=racks.lacking())
ENTRIES = {"begin", "set_rates", "load", "save", "digest", "train", "train_shared"}
Library = Callable[[str], RackLibrary]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Packages a model, once."""
    root, known = tmp_path_factory.mktemp("device_code"), dict[str, RackLibrary]()

    def make(model: str) -> RackLibrary:
        if model not in known:
            folder = packaged("net", case_dir(model, root), root / f"library_{model}", "-p", racks.TARGET.name)
            known[model] = RackLibrary(folder)
        return known[model]

    return make


@needs_tools
@pytest.mark.parametrize("per_lane", [False, True])
@pytest.mark.parametrize(
    "model", ["simple_mlp", *(pytest.param(x, marks=pytest.mark.slow) for x in ("digits", "autoencoder", "resnet8"))]
)
def test_code_of_models(model: str, per_lane: bool, library: Library, tmp_path: Path) -> None:
    """All floats round once to nearest even, nothing of a C library is called, and two architectures take the code."""
    source = build_ptx(library(model), RULES, per_lane, tmp_path)
    found = ptx.float_instructions(source.read_text())
    assert {"fma.rn.f32", "add.rn.f32", "mul.rn.f32", "div.rn.f32"} <= found.keys()
    for architecture in ("sm_80", "sm_90"):
        made = assemble(source, RULES, architecture, tmp_path / f"{architecture}.cubin")
        assert made.cubin.read_bytes()[:4] == b"\x7fELF"
        assert made.resources.keys() == ENTRIES
        for entry in made.resources.values():
            assert 0 < entry.registers <= 255
            assert most_lanes(entry.registers, RULES.launch) * entry.registers <= RULES.launch.registers


@needs_tools
def test_contraction_is_found(library: Library, tmp_path: Path) -> None:
    """Flags under which products and sums may be fused give PTX that the check refuses."""
    flags = tuple(word.replace("contract=off", "contract=fast") for word in RULES.device.flags)
    with pytest.raises(ToolFailed, match=r"mul\.f32"):
        build_ptx(library("simple_mlp"), replace(RULES, device=replace(RULES.device, flags=flags)), False, tmp_path)


@needs_tools
def test_foreign_functions_are_found(library: Library, tmp_path: Path) -> None:
    """A library that calls a function of a C library is refused with its name."""
    known, folder, proof = library("simple_mlp").folder, tmp_path / "library", "net_sgd_f32_exact"
    shutil.copytree(known, folder)
    source = folder / "src/net_sgd_f32.c"
    call = f"float sinhf(float x);\nvoid {proof}(const volatile float *x, volatile float *y) {{ y[0] = sinhf(x[0]); }}"
    source.write_text(source.read_text().replace(f"EXACT_FLAGS({proof})", call))
    with pytest.raises(ToolFailed, match="sinhf"):
        build_ptx(RackLibrary(folder), RULES, False, tmp_path / "code")


@pytest.mark.parametrize(
    "line",
    [
        "add.f32 %f1, %f2, %f3;",
        "mul.rn.ftz.f32 %f1, %f2, %f3;",
        "div.approx.f32 %f1, %f2, %f3;",
        "div.full.f32 %f1, %f2, %f3;",
        "sqrt.approx.ftz.f32 %f1, %f2;",
        "@%p1 ex2.approx.f32 %f1, %f2;",
        "fma.rz.f32 %f1, %f2, %f3, %f4;",
        "mad.rn.f32 %f1, %f2, %f3, %f4;",
        "add.rn.sat.f32 %f1, %f2, %f3;",
        "mul.f64 %fd1, %fd2, %fd3;",
        "cvt.sat.f32.f32 %f1, %f2;",
    ],
)
def test_other_rounding_is_a_fault(line: str) -> None:
    """Each instruction that may give other bits is found."""
    assert list(ptx.faults(f"\t{line}\n")) != []


def test_exact_instructions_are_none() -> None:
    """Instructions that round once, or not at all, are no faults."""
    lines = ["fma.rn.f32 \t%f1, %f2, %f3, %f4;", "@%p3 sqrt.rn.f32 %f1, %f2;", "ld.volatile.f32 %f1, [%rd1];"]
    lines += [
        "setp.lt.f32 %p1, %f1, %f2;",
        "cvt.rn.f32.u32 %f1, %r1;",
        "cvt.rzi.s32.f32 %r1, %f1;",
        "neg.f32 %f1, %f2;",
    ]
    assert list(ptx.faults("".join(f"\t{line}\n" for line in lines))) == []


def test_missing_tools_name_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a compiler or an assembler the error names packages, variables, and the emulation."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv(RULES.device.compiler_env, raising=False)
    monkeypatch.delenv(RULES.device.assembler_env, raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for find, words in (
        (tools.device_compiler, ("clang", RULES.device.compiler_env)),
        (tools.assembler, ("nvidia-cuda-nvcc", RULES.device.assembler_env)),
    ):
        with pytest.raises(ToolMissing) as caught:
            find(RULES.device)
        assert all(word in caught.value.hint for word in (*words, "--emulate"))


def test_assembler_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one in PATH, the assembler of NVIDIA's package is taken."""
    program = tmp_path / "nvidia/cu13/bin/ptxas"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv(RULES.device.assembler_env, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert tools.assembler(RULES.device) == [str(program)]
