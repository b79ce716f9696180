"""The HALs of the RISC-V targets: transfers, cores, files, text, and how a program ends."""

import random
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from deployer.calibration import measure
from deployer.core import target as targets
from DeployTest.targets.simulators import TARGETS, Run, build_source, needs_compiler, needs_simulator, simulate
from DeployTest.targets.transfer_script import PROGRAM, Script, full

pytestmark = pytest.mark.kernels
ORDERS = {"qemu_riscv": [("early", 0), ("late", 0), ("random", 1), ("random", 2)], "siracusa": [None]}
UNMAPPED = {"qemu_riscv": 0xF0000000, "siracusa": 0x55554444}
MARGIN = 8

HEAD = """
#include "format.h"
#include "hal.h"
const uint32_t hal_plan_cores = CORES;
extern uint8_t hal_memory_l1[], hal_memory_l2[], hal_memory_l3[];
"""


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> str:
    """Each target whose compiler and simulator are installed."""
    needs_simulator(request.param)
    return request.param


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder that keeps programs from test to test."""
    return tmp_path_factory.mktemp("programs")


def run_script(target: str, folder: Path, script: Script) -> None:
    """Run it in every order the target's transfers can take."""
    directory = folder / f"script-{target}"
    if not (directory / "network").is_file():
        build_source(target, PROGRAM, directory)
    for order in ORDERS[target]:
        flags = ("--dma-order", order[0], "--seed", str(order[1])) if order else ()
        run = simulate(target, directory, script.input(), *flags)
        assert run.status == 0, run.text
        faults = script.faults(run.output)
        assert not faults, order


def run_source(target: str, folder: Path, body: str, data: bytes = b"", cores: int = 8) -> Run:
    """Run a main function's body, with the functions that come before it after a line of dashes."""
    *before, main = body.split("----\n")
    source = HEAD.replace("CORES", str(cores)) + "".join(before)
    source += f"int main(int argc, char **argv) {{\n    hal_init(argc, argv);\n{main}\n    hal_exit(0);\n}}\n"
    build_source(target, source, folder)
    return simulate(target, folder, data)


def noise(size: int, seed: int = 0) -> bytes:
    """Bytes from a seed."""
    return random.Random(seed).randbytes(size)


# ---- transfers ----


def box_of(draw: random.Random, form: int, unit: int) -> tuple[int, ...]:
    """A box of 1, 2 or 3 dimensions whose runs and gaps are multiples of `unit` bytes."""
    run, gap, gap2 = (unit * draw.randint(low, 24) for low in (1, 0, 0))
    count, planes = draw.randint(1, 5), draw.randint(1, 4)
    stride = run + gap
    return (run, count, stride, planes, count * stride + gap2)[: 2 * form + 1]


def sizes(box: tuple[int, ...]) -> tuple[int, int]:
    """Bytes moved, and bytes from the first to the last in the outer level."""
    run, count, stride, planes, plane_stride = full(*box)
    return run * count * planes, (planes - 1) * plane_stride + (count - 1) * stride + run


@pytest.mark.parametrize("unit", [4, 1], ids=["words", "bytes"])
def test_transfers(target: str, unit: int, folder: Path) -> None:
    """All forms, both ways, both hops, at any address and of any length; nothing beside the box changes."""
    draw = random.Random(unit)
    script = Script()
    for level in range(3):
        script.fill(level, 0, noise(12_000, level))
    for case in range(60):
        hop, way, form = case % 2, ("in", "out")[case // 2 % 2], case // 4 % 3
        box = box_of(draw, form, unit)
        inner, outer = (MARGIN + unit * draw.randint(0, 1500) for _ in range(2))
        script.start(way, 0, hop, inner, outer, *box)
        script.wait(0)
        level, at = (hop, inner) if way == "in" else (hop + 1, outer)
        script.dump(level, at - MARGIN, 2600, f"{way} hop {hop} box {box} inner {inner} outer {outer}")
    run_script(target, folder, script)


@pytest.mark.parametrize(
    "box",
    [
        (131068,),
        (131072,),
        (199_999,),
        (1000, 199, 1100),
        (70_000, 2, 80_001),
        (140_000, 1, 150_000),
        (700, 100, 712, 2, 80_000),
        (4, 45_000, 8),
    ],
    ids=str,
)
def test_split(target: str, box: tuple[int, ...], folder: Path) -> None:
    """More than one command of MCHAN can move."""
    script = Script()
    size, extent = sizes(box)
    script.fill(1, 1001, noise(extent))
    script.fill(1, 600_003 - MARGIN, bytes(extent + 2 * MARGIN))
    script.start("in", 0, 0, 0, 1001, *box)
    script.wait(0)
    script.dump(0, 0, size, "in")
    script.start("out", 1, 0, 0, 600_003, *box)
    script.wait(1)
    script.dump(1, 600_003 - MARGIN, extent + 2 * MARGIN, "out")
    run_script(target, folder, script)


@pytest.mark.parametrize("box", [(1_000_000,), (65_536, 4, 100_000), (1000, 12, 1004, 20, 20_000)], ids=str)
def test_large_l3(target: str, box: tuple[int, ...], folder: Path) -> None:
    """The HyperRAM's engine has no limit that a plan could meet; more planes than its queue holds wait for room."""
    script = Script()
    size, extent = sizes(box)
    outer = 8_388_608 - extent
    script.fill(1, MARGIN, noise(size))
    script.start("out", 0, 1, MARGIN, outer, *box)
    script.wait(0)
    script.fill(1, 0, bytes(size + 2 * MARGIN))
    script.start("in", 1, 1, MARGIN, outer, *box)
    script.wait(1)
    script.dump(1, 0, size + 2 * MARGIN, "there and back")
    run_script(target, folder, script)


@pytest.mark.parametrize(("hop", "most"), [(0, 15), (1, 40)])
def test_in_flight(target: str, hop: int, most: int, folder: Path) -> None:
    """Many transfers at once both ways, waited for in any order, each once."""
    draw = random.Random(hop)
    script = Script()
    for level in (hop, hop + 1):
        script.fill(level, 0, noise(100_000, level))
    for round_ in range(3):
        tickets = list(range(most))
        for t in tickets:
            box = ((256,), (64, 4, 96), (32, 2, 48, 4, 100))[(t + round_) % 3]
            script.start("in" if t % 2 else "out", t, hop, 1000 * t, 50_000 + 1000 * t, *box)
        draw.shuffle(tickets)
        for t in tickets:
            script.wait(t)
    script.dump(hop, 0, 50_000, "inner")
    script.dump(hop + 1, 50_000, 50_000, "outer")
    run_script(target, folder, script)


def test_both_hops(target: str, folder: Path) -> None:
    """Transfers of both engines in flight; a short one that ended long ago can still be waited for."""
    script = Script()
    for level in range(3):
        script.fill(level, 0, noise(20_000, level))
    script.start("in", 0, 1, 0, 0, 16)
    script.start("out", 1, 1, 100, 100, 4000)
    script.start("in", 2, 0, 0, 8000, 6000)
    script.start("out", 3, 0, 8000, 15_000, 500)
    script.start("in", 4, 1, 16_000, 6000, 1000)
    for ticket in (4, 2, 3, 1, 0):
        script.wait(ticket)
    for level in range(3):
        script.dump(level, 0, 20_000, f"level {level}")
    run_script(target, folder, script)


def test_many_in_flight(target: str, folder: Path) -> None:
    """A start that finds no number for its transfer ends it before it returns, instead of sleeping for ever."""
    script = Script()
    for level in range(2):
        script.fill(level, 0, noise(20_000, level))
    for ticket in range(70):
        script.start("out" if ticket % 3 else "in", ticket, 0, 200 * ticket, 200 * ticket, 100 + ticket)
    for ticket in range(70):
        script.wait(ticket)
    for level in range(2):
        script.dump(level, 0, 20_000, f"level {level}")
    run_script(target, folder, script)


# ---- cores ----

COUNTING = """
typedef struct {
    uint32_t *seen;
} args_t;

static void count(const void *args) {
    const args_t *p = args;
    p->seen[hal_core_id()] += hal_core_count();
}
----
    uint32_t *seen = (uint32_t *)hal_memory_l1;
    const args_t args = {seen};
    for (uint32_t i = 0; i < 16; i++) seen[i] = 0;
    for (uint32_t i = 0; i < 1000; i++) hal_parallel(count, &args);
    hal_write(seen, 64);
"""


@pytest.mark.parametrize("cores", [1, 3, 8])
def test_parallel(target: str, cores: int, tmp_path: Path) -> None:
    """Each call runs on every core of the plan once, on no other, and is over when it returns."""
    run = run_source(target, tmp_path, COUNTING, cores=cores)
    counts = np.frombuffer(run.output, np.uint32).tolist()
    active = min(cores, targets.load(target).cores)
    assert counts == [1000 * active] * active + [0] * (16 - active), run.text


# ---- files, text, exit codes ----


@pytest.mark.parametrize("level", ["l1", "l2", "l3"])
def test_files(target: str, level: str, tmp_path: Path) -> None:
    """Bytes read and written in pieces of any size, to and from each level."""
    body = """
    static const uint32_t sizes[] = {1, 4, 1023, 1024, 1025, 5000, 0, 3};
    uint8_t *at = LEVEL + 4;
    for (uint32_t i = 0; i < 8; at += sizes[i++]) hal_read(at, sizes[i]);
    hal_write(LEVEL + 4, 4000);
    hal_write(LEVEL + 4004, 4080);
    """.replace("LEVEL", f"hal_memory_{level}")
    data = noise(8080)
    run = run_source(target, tmp_path, body, data + b"left over")
    assert run.status == 0, run.text
    assert run.output[:8080] == data


def test_file_ends(target: str, tmp_path: Path) -> None:
    """A short input file is a fault with a name."""
    run = run_source(target, tmp_path, "    hal_step(2);\n    hal_read(hal_memory_l1, 8);", b"1234")
    assert run.status != 0
    assert "hal: step 2: input.bin is too short" in run.text


def test_text(target: str, tmp_path: Path) -> None:
    """Floats print as C prints them, in lines of their own."""
    draw = np.random.default_rng(0)
    bits = draw.integers(0, 1 << 32, 200, dtype=np.uint32)
    values = bits.view(np.float32)
    edges = np.float32([0, 1, -0.649000883, 1e-45, 3.4028235e38, np.inf])
    values = np.concatenate([values[np.isfinite(values)], edges])
    body = """
    for (uint32_t i = 0; i < COUNT; i++) {
        static float value;
        char text[FORMAT_F32_CHARS];
        hal_read(&value, 4);
        text[format_f32(text, value)] = 0;
        hal_print("value ");
        hal_print(text);
        hal_print("\\n");
    }
    """.replace("COUNT", str(len(values)))
    run = run_source(target, tmp_path, body, values.astype(np.float32).tobytes())
    lines = [line for line in run.text.splitlines() if line.startswith("value")]
    assert lines == [f"value {float(v):.9g}" for v in values]


@pytest.mark.parametrize("code", [0, 1, 5])
def test_exit_code(target: str, code: int, tmp_path: Path) -> None:
    """The simulator's status is zero where the program's is."""
    run = run_source(target, tmp_path, f"    hal_exit({code});")
    assert (run.status == 0) == (code == 0), run.text
    assert "Invalid" not in run.text


def test_main_returns(target: str, tmp_path: Path) -> None:
    """The return value of main is the exit code."""
    run = run_source(target, tmp_path, "    if (argc >= 0) return 1;")
    assert run.status != 0


# ---- faults ----

FAULTY = """
static void illegal(const void *args) {
    (void)args;
    if (hal_core_id() == hal_core_count() - 1) __asm__ volatile(".word 0");
}

static void hangs(const void *args) {
    (void)args;
    for (volatile uint32_t on = hal_core_id() == hal_core_count() - 1; on;) {}
}

static void all_hang(const void *args) {
    (void)args;
    for (volatile uint32_t on = 1; on;) {}
}

static void astray(const void *args) {
    if (hal_core_id() == hal_core_count() - 1) (*(volatile uint32_t *)args)++;
}
----
    hal_step(7);
    static void (*const kinds[])(const void *) = {illegal, hangs, all_hang, astray};
    (void)kinds;
    FAULT;
    hal_print("went on\\n");
"""


def last_words(target: str, folder: Path, fault: str) -> str:
    """Run a program with this fault that must fail; return its output."""
    run = run_source(target, folder, FAULTY.replace("FAULT", fault))
    assert run.status != 0, run.text
    assert "went on" not in run.text
    return run.text


@pytest.mark.parametrize("fault", ['__asm__ volatile(".word 0")', "hal_parallel(illegal, 0)"], ids=["main", "kernel"])
def test_illegal_instruction(target: str, fault: str, tmp_path: Path) -> None:
    """A trap tells the step and the pc, on whichever core it happens."""
    text = last_words(target, tmp_path, fault)
    assert re.search(r"^hal: trap, pc 0x[0-9a-f]{8} cause", text, re.MULTILINE), text
    assert "hal: step 7: trap" in text


@pytest.mark.parametrize("where", ["main", "kernel"])
def test_illegal_access(target: str, where: str, tmp_path: Path) -> None:
    """An address where nothing lies ends the run with the pc; GVSoC stops by itself, before any trap."""
    pointer = f"(volatile uint32_t *){UNMAPPED[target]:#x}"
    fault = f"*{pointer} = 1" if where == "main" else f"hal_parallel(astray, (void *){pointer})"
    text = last_words(target, tmp_path, fault)
    if target == "siracusa":
        assert re.search(r"Invalid access \(pc: 0x1c01[0-9a-f]{4}, offset: 0x55554444", text), text
    else:
        assert re.search(r"^hal: trap, pc 0x8000[0-9a-f]{4} cause .* value 0xf0000000", text, re.MULTILINE), text
        assert "hal: step 7: trap" in text


@pytest.mark.parametrize("fault", ["for (;;) {}", "hal_parallel(hangs, 0)", "hal_parallel(all_hang, 0)"])
def test_watchdog(target: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that does not end is ended, wherever it hangs, and one core alone says so."""
    monkeypatch.setenv("RISCV_GCC", "riscv64-unknown-elf-gcc -DWATCHDOG_LIMIT=100000")
    text = last_words(target, tmp_path, fault)
    assert len(re.findall(r"^hal: the step does not end, pc 0x[0-9a-f]{8} ", text, re.MULTILINE)) == 1, text
    assert "hal: step 7: watchdog" in text


def test_watchdog_restarts(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step has the whole limit to itself."""
    monkeypatch.setenv("RISCV_GCC", "riscv64-unknown-elf-gcc -DWATCHDOG_LIMIT=100000")
    body = """
    for (uint32_t step = 0; step < 50; step++) {
        hal_step(step);
        for (volatile uint32_t i = 0; i < 1000; i++) {}
    }
    """
    assert run_source(target, tmp_path, body).status == 0


# ---- without a simulator ----


@pytest.mark.parametrize("name", TARGETS)
def test_builds(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HAL and runtime compile without a warning; the file has what a loader needs and no segment without content."""
    needs_compiler(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = build_source(name, PROGRAM, tmp_path / "c")
    headers = subprocess.run(
        ["riscv64-unknown-elf-readelf", "-lW", program], capture_output=True, text=True, check=True
    ).stdout
    loads = [line.split() for line in headers.splitlines() if line.split()[:1] == ["LOAD"]]
    assert loads
    assert all(int(words[4], 16) > 0 for words in loads), headers
    assert sum(int(words[5], 16) for words in loads) < 128 * 1024, "HAL and runtime need but a part of the program's L2"


# ---- last, since kernels are still being tuned ----


def test_dispatch(target: str, tmp_path: Path) -> None:
    """From the call of an empty kernel to its return; a transfer is measured in the same program."""
    jobs: list[measure.Job] = [measure.DISPATCH, measure.TransferJob("in", "in", 512)]
    dispatch, copied = measure.measure_jobs(targets.load(target), jobs, tmp_path)
    assert dispatch.warm <= 60, "cycles"
    assert 0 < copied.issue[-1] <= copied.warm
