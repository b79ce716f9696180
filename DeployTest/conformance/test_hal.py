"""The conformance program: HALs that are right, and faults planted in one, each found in its check."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from deployer.core.target import Target, load, parse
from deployer.running.conformance import Conformance, HalFault, check_hal
from DeployTest.support.building.command_line import deployer, refused
from DeployTest.targets.simulators import needs_simulator

pytestmark = [pytest.mark.host]
HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/porting.md"
CLUSTER_PAGE = HERE.parents[1] / "docs/how-to/target.md"
MOST_LINES = 60
ALWAYS = ("cores", "clock", "fmaf", "subnormals", "NaN", "rounding", "stack", "files")
LINE, BOX, ORDER = "transfer of a line", "transfer of a box", "order of transfers"


@dataclass(frozen=True)
class Planted:
    """A text of the HAL or of its board and what stands there instead, or flags; the check that sees it, its words."""

    check: str
    said: str
    old: str = ""
    new: str = ""
    flags: tuple[str, ...] = ()


LATER = """static struct { uint8_t *to; const uint8_t *from; uint32_t n; } last;
hal_ticket_t hal_dma_in_1d(uint32_t hop, void *inner, const void *outer, uint32_t bytes) {
    (void)hop;
    last.to = inner, last.from = outer, last.n = bytes;
    return bytes ? 1 : HAL_DONE;
}
hal_ticket_t unused_1d(uint32_t hop, void *inner, const void *outer, uint32_t bytes);
hal_ticket_t unused_1d(uint32_t hop, void *inner, const void *outer, uint32_t bytes) {"""
IN_1D = "hal_ticket_t hal_dma_in_1d(uint32_t hop, void *inner, const void *outer, uint32_t bytes) {"
WAIT = "void hal_dma_wait(hal_ticket_t ticket) { (void)ticket; }"
ODD = """static _Alignas(16) struct { uint8_t all[16400]; } near_ __asm__("near_");
__asm__(".globl hal_memory_near\\n.set hal_memory_near, near_ + 2");
uint8_t *keep(void);
uint8_t *keep(void) { return near_.all; }
uint8_t other[4]"""
FAULTS = {
    "stride": Planted(
        BOX, "inwards in two dims", "plane_stride + i * stride, run)", "plane_stride + i * run + 0 * stride, run)"
    ),
    "plane": Planted(
        BOX,
        "outwards in three dims",
        "outer + p * plane_stride + i * stride, from",
        "outer + p * run + 0 * plane_stride + i * stride, from",
    ),
    "too short": Planted(LINE, "bytes differ", "i < bytes; i++) to[i]", "i + 4 < bytes || i < 4; i++) to[i]"),
    "too long": Planted(LINE, "behind the line", "i < bytes; i++) to[i]", "i < bytes + 4; i++) to[i]"),
    "ticket of nothing": Planted(
        LINE,
        "no bytes has a ticket",
        "return hal_dma_in_3d(hop, inner, outer, bytes, 1, 0, 1, 0);",
        "return hal_dma_in_3d(hop, inner, outer, bytes, 1, 0, 1, 0) + (bytes == 0);",
    ),
    "one under way": Planted(ORDER, "a part is not there", IN_1D, LATER),
    "clock stands": Planted("clock", "stands still", "return board_clock();", "return 1;"),
    "clock goes back": Planted("clock", "went back", "return board_clock();", "return ~board_clock();"),
    "no kernel": Planted("cores", "did not run the kernel once", "{ kernel(args); }", "{ (void)kernel, (void)args; }"),
    "kernel twice": Planted(
        "cores", "did not run the kernel once", "{ kernel(args); }", "{ kernel(args), kernel(args); }"
    ),
    "number of cores": Planted(
        "cores", "not the plan's number", "hal_core_count(void) { return 1; }", "hal_core_count(void) { return 2; }"
    ),
    "two roundings": Planted("fmaf", "not rounded once", flags=("-D__builtin_fmaf(x,y,z)=((x)*(y)+(z))",)),
    "fast math": Planted("NaN", "NaN", flags=("-ffinite-math-only",)),
    "deep stack": Planted(
        "stack",
        "hal_step takes the whole stack",
        "{ step_now = step; }",
        "{ volatile char big[4000]; for (int i = 0; i < 4000; i++) big[i] = 0; step_now = step + (uint32_t)big[0]; }",
    ),
    "short write": Planted(
        "files", "hal_write wrote", "board_write(source, bytes); }", "board_write(source, bytes - 1); }"
    ),
    "read": Planted(
        "files",
        "hal_read brings other bytes",
        "board_read(destination, bytes); }",
        "board_read(destination, bytes), *(char *)destination ^= 1; }",
    ),
    "memory begins anywhere": Planted(
        "memory",
        "not aligned",
        "_Alignas(16) uint8_t hal_memory_near[16384]",
        ODD,
    ),
    "exit": Planted("exit", "ended with status 7", "board_exit(code)", "board_exit(code + 7)"),
}
TWICE = HalFault("fmaf", "fmaf is not rounded once; bits of the result, found 1065353218, expected 1065353217")
"""What GVSoC's rounding to a double first makes of 262143 * 2^-30 times 262145 * 2^-30 plus 1 + 2^-23."""
QUICK = ("one under way", "two roundings")


def plain(folder: Path, fault: Planted | None = None) -> Conformance:
    """Check the HAL that the page shows, with a fault."""
    shown = re.search(r"<!-- shown: plain hal -->\n```c\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert shown
    assert len(shown[1].splitlines()) <= MOST_LINES
    texts = {"hal.c": shown[1], "hal_target.h": "#define HAL_TABLE\n"}
    texts |= {name: (HERE / name).read_text() for name in ("board.c", "board.h")}
    target: Target = parse(HERE / "plain.toml")
    if fault:
        places = [name for name, text in texts.items() if fault.old and fault.old in text]
        assert len(places) == bool(fault.old), f"{fault.old} is in {places}"
        texts |= {name: texts[name].replace(fault.old, fault.new) for name in places}
        if fault.new == LATER:
            texts["hal.c"] = texts["hal.c"].replace(
                WAIT, "void hal_dma_wait(hal_ticket_t t) { if (t) copy(last.to, last.from, last.n); }"
            )
        assert target.toolchain
        tools = replace(target.toolchain, flags=(*target.toolchain.flags, *fault.flags))
        target = replace(target, toolchain=tools)
    own = folder / "plain"
    own.mkdir()
    for name, text in texts.items():
        (own / name).write_text(text)
    return check_hal(target, folder, (own,))


def test_plain(tmp_path: Path) -> None:
    """The page's HAL is right, and each check was made."""
    found = plain(tmp_path)
    assert found.faults == ()
    assert found.checks == ("memory", LINE, BOX, ORDER, *ALWAYS)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in FAULTS]
)
def test_faults(name: str, tmp_path: Path) -> None:
    """A fault is found in its check, and said in its words."""
    found = plain(tmp_path, FAULTS[name])
    words = [fault.text for fault in found.faults if fault.check == FAULTS[name].check]
    assert any(FAULTS[name].said in text for text in words), found.faults


CLUSTER_FAULTS = {
    "no barrier behind the kernel": ("cores", "    kernel(args);\n    cluster_barrier();", "    kernel(args);"),
    "a plane is not awaited": ("begin", "        hal_dma_wait(ticket);\n", ""),
    "packed without its plane": (BOX, "inner + p * run * count", "inner + p * run"),
    "a wait returns at once": (ORDER, "while (ticket != HAL_DONE && cluster_dma_busy(ticket - 1)) {}", ""),
}
"""Faults of the cluster's HAL: the check that sees each, the text, and what stands there instead."""


def cluster(folder: Path, old: str = "", new: str = "") -> Conformance:
    """Check the multicore HAL that the how-to shows, on threads, with another text."""
    shown = re.search(r"<!-- shown: cluster hal -->\n```c\n(.*?)```", CLUSTER_PAGE.read_text(), re.DOTALL)
    assert shown
    assert not old or shown[1].count(old) == 1
    own = folder / "cluster"
    own.mkdir()
    (own / "hal.c").write_text(shown[1].replace(old, new) if old else shown[1])
    (own / "hal_target.h").write_text("#define HAL_TABLE\n")
    for name in ("cluster.c", "cluster.h"):
        (own / name).write_text((HERE / name).read_text())
    return check_hal(parse(HERE / "cluster.toml"), folder, (own,))


def test_cluster(tmp_path: Path) -> None:
    """The how-to's HAL is right: on several cores, with an engine that moves transfers in another order."""
    found = cluster(tmp_path)
    assert found.faults == ()
    assert found.checks == ("memory", LINE, BOX, ORDER, *ALWAYS)


@pytest.mark.slow
@pytest.mark.parametrize("name", CLUSTER_FAULTS)
def test_faults_of_the_cluster(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the page's HAL is found in its check; without free channels the engine ends the program."""
    monkeypatch.setattr("deployer.running.conformance.SECONDS", 5)
    check, old, new = CLUSTER_FAULTS[name]
    assert check in {fault.check for fault in cluster(tmp_path, old, new).faults}


@pytest.mark.slow
def test_a_hal_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A HAL function that never returns is a fault of the check that called it."""
    monkeypatch.setattr("deployer.running.conformance.SECONDS", 2)
    hang = Planted(
        ORDER, "did not end", WAIT, "void hal_dma_wait(hal_ticket_t t) { static int n; n++; while (n > 25) (void)t; }"
    )
    found = plain(tmp_path, hang)
    assert "did not end in this check" in found.faults[-1].text


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    """The command's lines and exit code; the simulator is refused."""
    capsys.readouterr()
    assert deployer("hal-test", load("host_flat").name) == 0
    assert "fmaf: right" in capsys.readouterr().out
    assert "the simulator" in refused(capsys, "hal-test", load("host").name)


def test_without_emulator(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing emulator is named, with a remedy that this command has."""
    monkeypatch.setattr("deployer.running.conformance._build", lambda *_: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    said = refused(capsys, "hal-test", load("qemu_riscv").name)
    assert "qemu-system-riscv32 is not installed" in said
    assert "qemu-system-misc" in said
    assert "--skipsim" not in said


@pytest.mark.qemu_riscv
def test_emulated(tmp_path: Path) -> None:
    """The HAL of the emulated RISC-V machine."""
    needs_simulator("qemu_riscv")
    found = check_hal(load("qemu_riscv"), tmp_path)
    assert found.faults == ()
    assert found.checks.count(LINE) == 2


@pytest.mark.siracusa
def test_siracusa(tmp_path: Path) -> None:
    """The cluster under its simulator, whose fmaf has the one known fault: docs/porting.md says which, or none."""
    needs_simulator("siracusa")
    found = check_hal(load("siracusa"), tmp_path)
    assert set(found.faults) <= {TWICE}
    assert found.checks.count(ORDER) == 2
