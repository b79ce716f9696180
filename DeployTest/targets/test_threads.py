"""Threads for cores on one flat memory: the bits of one core, no races, no call lost, and too few are an end."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from deployer import pipeline
from deployer.core import target as targets
from deployer.core.plan import Options
from deployer.running import build
from deployer.running.build import COMMON, source_folders
from DeployTest.support.building.cases import load_case, result_hash
from DeployTest.support.building.command_line import refused

pytestmark = [pytest.mark.host, pytest.mark.training]
NATIVE = "host_flat"
CORES = (1, 3, 8)
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("resnet8", "dscnn", "transformer", "mobilenet_v1")]
RACES = ("-fsanitize=thread", "-g", "-O1")
LIMIT = 36 << 20
"""Bytes of address space: enough for the program, too few for the stacks of 64 threads."""

CALLS = """#include "hal.h"
#include "share_f32.h"
const uint32_t hal_plan_cores = {cores};
static uint32_t order[{cores}], items[100];
static void kernel(const void *args) {{
    const share_t share = share_of(100);
    if (order[hal_core_id()]++ != *(const uint32_t *)args) hal_exit(5);
    for (uint32_t i = share.begin; i < share.end; i++) items[i]++;
}}
int main(int argc, char **argv) {{
    hal_init(argc, argv);
    for (uint32_t call = 0; call < {calls}; call++) {{
        hal_parallel(kernel, &call);
        for (uint32_t i = 0; i < 100; i++)
            if (items[i] != call + 1) hal_exit(6);
    }}
    hal_print("all");
    hal_exit(0);
}}
"""

MEETINGS = """#include "hal.h"
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>
const uint32_t hal_plan_cores = {cores};
static atomic_uint begun;
static uint32_t ended[{cores}];
static _Thread_local uint32_t caller;
static void kernel(const void *args) {{
    const uint32_t call = *(const uint32_t *)args;
    atomic_fetch_add(&begun, 1);
    while (atomic_load(&begun) < {cores} * call) sched_yield();
    if (!caller) usleep(2000);
    ended[hal_core_id()] = call;
}}
int main(int argc, char **argv) {{
    hal_init(argc, argv);
    caller = 1;
    for (uint32_t call = 1; call <= {calls}; call++) {{
        if (call % 2) usleep(5000);
        hal_parallel(kernel, &call);
        for (uint32_t i = 0; i < {cores}; i++)
            if (ended[i] != call) hal_exit(5);
    }}
    hal_print("all");
    hal_exit(0);
}}
"""
"""Each share waits for all others to begin, and the caller's ends first; threads sleep before each second call."""


def compiled(cores: int, calls: int, folder: Path, *flags: str, text: str = CALLS) -> Path:
    """A program that checks after each call that every core made it, once and in turn."""
    tools = build.toolchain(replace(targets.load(NATIVE), cores=cores))
    (folder / "main.c").write_text(text.format(cores=cores, calls=calls))
    folders = (COMMON / "include", *source_folders(tools))
    sources = [folder / "main.c", *(path for place in folders for path in sorted(place.glob("*.c")))]
    command = [*build.compiler(tools), *build.flags_of(tools), *flags, *(f"-I{place}" for place in folders)]
    subprocess.run([*command, *map(str, sources), "-lm", "-o", str(folder / "p")], check=True, timeout=120)
    return folder / "p"


@pytest.fixture
def races(tmp_path: Path) -> tuple[str, ...]:
    """The flags by which races end a run; skips where the compiler or the machine does not have that."""
    (tmp_path / "empty.c").write_text("int main(void) { return 0; }\n")
    command = [*build.compiler(build.toolchain(targets.load(NATIVE))), *RACES, str(tmp_path / "empty.c")]
    made = subprocess.run([*command, "-o", str(tmp_path / "empty")], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no thread sanitizer: {made.stderr.strip().splitlines()[-1]}")
    run = subprocess.run([str(tmp_path / "empty")], capture_output=True, text=True, check=False)
    if run.returncode:
        pytest.skip(f"the thread sanitizer does not run: {run.stderr.strip()[:100]}")
    return RACES


@pytest.mark.parametrize("test", [pytest.param("digits", marks=pytest.mark.slow), "autoencoder", *SLOW])
def test_same_bits(test: str, models_root: Path, tmp_path: Path) -> None:
    """Losses and weights are the same however many threads share the kernels; the plan and its costs know how many."""
    case, hashes, cycles = load_case(test, models_root), [], []
    for cores in CORES:
        folder = tmp_path / str(cores)
        tiling, plan = pipeline.plan_case(case, Options(NATIVE, cores=cores))
        pipeline.write_case(case, tiling, plan, folder)
        assert any(f"hal_plan_cores = {cores};" in path.read_text() for path in folder.glob("*.c"))
        pipeline.build_case(plan, folder)
        hashes.append(result_hash(pipeline.execute(case, plan, folder)))
        cycles.append(sum(step.cycles for step in plan.steps))
    assert hashes == hashes[:1] * len(CORES)
    assert cycles == sorted(cycles, reverse=True)
    assert cycles[0] > cycles[-1]


def test_no_race(races: tuple[str, ...], models_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No two threads touch a byte that one of them writes without waiting for each other, in any kernel of a CNN."""
    tools = build.toolchain(targets.load(NATIVE))
    monkeypatch.setenv(tools.compiler_env, " ".join((*build.compiler(tools), *races)))
    case = load_case("digits", models_root)
    tiling, plan = pipeline.plan_case(case, Options(NATIVE, cores=3))
    pipeline.write_case(case, tiling, plan, tmp_path)
    pipeline.build_case(plan, tmp_path)
    assert pipeline.execute(case, plan, tmp_path).losses


@pytest.mark.parametrize(("cores", "calls"), [(1, 1000), (2, 20000), (8, 2000), (64, 50)])
def test_every_call(cores: int, calls: int, tmp_path: Path) -> None:
    """Each core makes each call once before the next one begins, whether there are processors for all or not."""
    program = compiled(cores, calls, tmp_path)
    assert subprocess.run([program], capture_output=True, text=True, check=True, timeout=60).stdout == "all"


@pytest.mark.parametrize("cores", [2, 8])
def test_all_at_once(cores: int, tmp_path: Path) -> None:
    """All threads take part in a call, also those that slept, and it returns when the last of them is done."""
    program = compiled(cores, 20, tmp_path, text=MEETINGS)
    assert subprocess.run([program], capture_output=True, text=True, check=True, timeout=60).stdout == "all"


@pytest.mark.parametrize("cores", [2, 8])
def test_calls_do_not_race(cores: int, races: tuple[str, ...], tmp_path: Path) -> None:
    """A core may read in a call the values that another one wrote in the call before."""
    program = compiled(cores, 300, tmp_path, *races)
    assert subprocess.run([program], capture_output=True, text=True, check=True, timeout=60).stdout == "all"


def test_built_for_others(tmp_path: Path) -> None:
    """Kernels share by the number that they are compiled for: a plan with another one ends before it runs."""
    program = compiled(2, 1, tmp_path, "-UHAL_CORES", "-DHAL_CORES=3")
    run = subprocess.run([program], capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 4
    assert "the plan has 2 cores, and it is built for 3" in run.stderr


def test_cannot_start(tmp_path: Path) -> None:
    """A run ends where the system does not give it the threads, and says how many there were."""
    program = compiled(64, 1, tmp_path)
    limited = ["sh", "-c", f"ulimit -v {LIMIT // 1024}; exec {program}"]
    run = subprocess.run(limited, capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 4, run.stderr
    assert "the plan has 64 cores, and" in run.stderr


def test_too_many(models_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """More cores than the target may have are refused."""
    case = load_case("digits", models_root).directory
    most = targets.load(NATIVE).most_cores
    words = ["train", "-t", case, "-p", NATIVE, "-o", tmp_path / "o", "--cores", str(most + 1)]
    assert f"--cores {most + 1}: target '{NATIVE}' has 1 to {most}" in refused(capsys, *words)
