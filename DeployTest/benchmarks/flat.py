"""Processor time of a training step on one flat memory, beside PyTorch, the simulator and the machine's own peaks.

Run as `python -m DeployTest.benchmarks.flat` where PyTorch is installed: writes flat.json and the tables of
docs/how-to/target.md. A step is a pass for one sample and its update, with one thread. Times are the least of
several rounds, in which all take turns, as other processes only ever add to them, and peaks the most; the simulator's
time is its mean. Instructions are counted by valgrind, where that is installed.
"""

import argparse
import importlib
import json
import math
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from deployer import pipeline
from deployer.core import target as targets
from deployer.core.cost import all_macs, phases
from deployer.core.operator import operator_of
from deployer.core.plan import Options, Plan, RunOptions, Tiling
from deployer.pipeline import Case
from deployer.running.build import compiler, flags_of, toolchain
from deployer.testing.bench import kernel_model
from DeployTest.benchmarks.upkeep.commits import publish
from DeployTest.models import autoencoder, transformer
from DeployTest.support.building.cases import load_case, result_hash

MODEL = kernel_model()

RESULT = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "how-to" / "target.md"
MARKS = ("<!-- flat table -->", "<!-- end of flat table -->")
PEAKS = Path(__file__).with_name("flat_peaks.c")
NATIVE, SIMULATED = "host_flat", "host"
PASSES, COMPARED, COUNTED = 60, 4, 1
"""Passes of a program that is timed, of one whose results are compared, and of one whose instructions are counted."""
ROUNDS = 7
MOST = 4.0
"""A step takes at most so many times as long as PyTorch's."""
GRAPHS = ("train_network_run", "optimizer_network_run")


@dataclass(frozen=True)
class Row:
    """Microseconds of a step; bytes of the plan's one level: the highest in use, and the most that live at once.

    `roof_us` is what the machine's peaks allow. `instructions` and `macs` are of a step. `digest` hashes the losses and
    final weights of a few steps, `simulated_digest` those of the plan for the simulated machine's three levels.
    """

    model: str
    native_us: float
    simulated_us: float
    torch_us: float
    roof_us: float
    gflops: float
    gigabytes: float
    instructions: int
    macs: int
    ram: int
    bound: int
    digest: str
    simulated_digest: str


@dataclass(frozen=True, eq=False)
class Program:
    """A built case with its tiling and plan."""

    case: Case
    tiling: Tiling
    plan: Plan
    folder: Path

    def native(self) -> float:
        """Microseconds of a pass and its update by the program's own clock, which reading files does not count on."""
        bench = pipeline.execute(self.case, self.plan, self.folder).bench
        return (int(bench["train_cycles"]) + int(bench["opt_cycles"])) / 1000

    def process(self) -> float:
        """Microseconds of a pass of the whole process, by the system's account of it, which has coarse steps."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        pipeline.execute(self.case, self.plan, self.folder)
        return 1e6 * (resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before) / self.case.passes

    def digest(self) -> str:
        """A hash of losses and final weights."""
        return result_hash(pipeline.execute(self.case, self.plan, self.folder))

    def instructions(self) -> int:
        """Instructions of a step's graphs under valgrind; 0 where it is not installed."""
        if shutil.which("valgrind") is None:
            return 0
        pipeline.execute(self.case, self.plan, self.folder)
        words = [str(self.folder / "network"), "--input", str(self.folder / "input.bin"), "--output", "/dev/null"]
        watched = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        watched += [f"--toggle-collect={name}" for name in GRAPHS]
        said = subprocess.run([*watched, *words], capture_output=True, text=True, check=False).stderr
        [count] = re.findall(r"Collected : (\d+)", said)
        return int(count) // self.case.passes

    def least(self, flops: float, rate: float) -> tuple[int, float]:
        """Multiply-accumulates of a step, and the seconds that it takes at these peaks.

        Each kernel does its operations, two to a multiply-accumulate, and moves each operand once, at the same time.
        """
        macs, seconds = 0, 0.0
        for step in self.tiling.lifetimes.schedule.steps:
            work = operator_of(step.node).work(step.node, step.access, step.access.sizes, MODEL)
            moved = sum(
                math.prod(o.view) * step.kernel.element_bytes(o.arg) * (o.reads + o.writes)
                for o in step.access.operands
            )
            macs += all_macs(work)
            elements = sum(phase.elements for phase in phases(work))
            seconds += max((2 * all_macs(work) + elements) / flops, moved / rate)
        return macs, seconds


def program(case: Case, target: str, folder: Path, passes: int) -> Program:
    """The case as a program of so many passes, with nothing to compare."""
    assert case.dataset is not None
    dataset = replace(case.dataset, n_batches=passes, n_accum=1, expected_losses=(0.0,) * passes)
    case = replace(case, dataset=dataset)
    options = Options(target, outermost=targets.load(target).levels[-1].name)
    running, options = RunOptions(passes, 0.0, 0), pipeline.accumulate_of(case, options)
    tiling, plan = pipeline.plan_program(case.program, options, running=running)
    pipeline.write_case(case, tiling, plan, folder)
    pipeline.build_case(plan, folder)
    return Program(case, tiling, plan, folder)


class Peaks:
    """The machine's peaks, measured by a program of the target's own flags; the most of all rounds counts."""

    def __init__(self, folder: Path) -> None:
        """Build it."""
        tools, self.path = toolchain(targets.load(NATIVE)), folder / "peaks"
        self.flops, self.rates = 0.0, dict[int, float]()
        command = [*compiler(tools), *flags_of(tools), str(PEAKS), *tools.link, "-o", str(self.path)]
        subprocess.run(command, check=True)

    def measure(self, size: int) -> None:
        """Take another measurement, with a working set of so many bytes."""
        said = subprocess.run([self.path, str(size)], capture_output=True, text=True, check=True).stdout
        flops, rate = map(float, said.split())
        self.flops = max(self.flops, flops)
        self.rates[size] = max(self.rates.get(size, 0.0), rate)


def torch_step(model: str, case: Case) -> Callable[[], None] | None:
    """A pass and its update of the same network and samples; None without PyTorch."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return None
    nets: Any = importlib.import_module("DeployTest.support.references.torch_nets")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    loss: Any = torch.nn.functional.cross_entropy
    if model == "autoencoder":
        layers: list[Any] = []
        for wide, narrow in zip(autoencoder.WIDTHS, autoencoder.WIDTHS[1:], strict=False):
            layers += [torch.nn.Linear(wide, narrow), torch.nn.ReLU()]
        net: Any = torch.nn.Sequential(*layers[:-1])
        loss = torch.nn.functional.mse_loss
    elif model == "transformer":
        net = nets.Encoder(transformer.WIDTH, transformer.HIDDEN, transformer.CLASSES)
        for parameter in net.parameters():
            torch.nn.init.normal_(parameter, std=0.1)
    else:
        net = getattr(nets, model)(True)
    net.train()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
    assert case.dataset is not None
    x, expected = (torch.tensor(np.array(value)) for value in case.dataset.sample(0))
    expected = expected.long() if expected.dtype != torch.float32 else expected

    def step() -> None:
        optimizer.zero_grad()
        loss(net(x), expected).backward()
        optimizer.step()

    return step


def timed(step: Callable[[], None], count: int) -> float:
    """Microseconds of processor time per call."""
    begin = time.process_time()
    for _ in range(count):
        step()
    return 1e6 * (time.process_time() - begin) / count


def measured(model: str, folder: Path, peaks: Peaks) -> Row:
    """A model's row."""
    case = load_case(model, folder)
    native, compared, counted = (
        program(case, NATIVE, folder / f"{model}_{passes}", passes) for passes in (PASSES, COMPARED, COUNTED)
    )
    simulated = program(case, SIMULATED, folder / f"{model}_{SIMULATED}", COMPARED)
    step, [use] = torch_step(model, case), native.plan.levels
    times: dict[str, list[float]] = {"native": [], "simulated": [], "torch": []}
    for _ in range(ROUNDS):
        times["native"].append(native.native())
        times["simulated"].append(simulated.process())
        times["torch"].append(timed(step, PASSES) if step else 0.0)
        peaks.measure(use.peak)
    mean = sum(times.pop("simulated")) / ROUNDS
    least = {name: round(min(values), 1) for name, values in times.items()}
    macs, seconds = native.least(peaks.flops, peaks.rates[use.peak])
    return Row(
        model,
        least["native"],
        round(mean, 1),
        least["torch"],
        round(1e6 * seconds, 1),
        round(peaks.flops / 1e9, 1),
        round(peaks.rates[use.peak] / 1e9, 1),
        counted.instructions(),
        macs,
        use.peak,
        use.bound,
        compared.digest(),
        simulated.digest(),
    )


def main() -> None:
    """Measure the models, and write their rows where all of them were asked for."""
    models = ("simple_mlp", "autoencoder", "digits", "transformer", "dscnn", "resnet8", "mobilenet_v1")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(models)}; all are written to a file")
    words, console, rows = parser.parse_args(), Console(), []
    with tempfile.TemporaryDirectory() as scratch:
        peaks = Peaks(Path(scratch))
        for model in words.models or models[1:]:
            row = measured(model, Path(scratch), peaks)
            ratio = f"PyTorch {row.torch_us / row.native_us:.2f} x" if row.torch_us else "no PyTorch here"
            console.print(
                f"{model}: {row.native_us} us, simulator {row.simulated_us / row.native_us:.0f} x, {ratio}, "
                f"{row.ram} B, {row.instructions} instructions, {row.macs} MACs, "
                f"{row.roof_us / row.native_us:.0%} of the peaks"
            )
            rows.append(row)
    slow = [row.model for row in rows if row.torch_us and row.native_us > MOST * row.torch_us]
    other = [row.model for row in rows if row.digest != row.simulated_digest]
    for fault, names in ((f"more than {MOST} times PyTorch's time", slow), ("other bits than the simulator's", other)):
        if names:
            sys.exit(f"{', '.join(names)}: {fault}")
    if not words.models and all(row.torch_us for row in rows):
        write(rows)
        console.print(f"written: {RESULT}, {PAGE}", soft_wrap=True)


def processor() -> str:
    """The processor's name, where the system tells it."""
    path = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.*)$", path.read_text() if path.is_file() else "", re.MULTILINE)
    return names[0].strip() if names else platform.machine()


def write(rows: list[Row]) -> None:
    """Write the results and the page's table."""
    command = compiler(toolchain(targets.load(NATIVE)))
    said = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout
    torch: Any = importlib.import_module("torch")
    record = {
        "compiler": said.splitlines()[0],
        "torch": torch.__version__,
        "processor": processor(),
        "rows": [asdict(row) for row in rows],
    }
    RESULT.write_text(json.dumps(record, indent=1) + "\n")
    publish(__file__, PAGE, MARKS, page_table(record))


def page_table(record: Mapping[str, Any]) -> str:
    """The tables of the results."""
    rows = [Row(**row) for row in record["rows"]]
    lines = [
        f"Microseconds of processor time for a pass and its update of one batch, one thread; {record['compiler']},",
        f"PyTorch {record['torch']}. `host` is the simulator. RAM: bytes of the plan; lower bound: live at once.",
        "",
        "| model | `host_flat` | `host` | PyTorch | PyTorch / `host_flat` | RAM | lower bound |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        times = f"{row.native_us:.0f} | {row.simulated_us:.0f} | {row.torch_us:.0f}"
        lines.append(f"| {row.model} | {times} | {row.torch_us / row.native_us:.1f} | {row.ram} | {row.bound} |")
    lines += [
        "",
        "Per step: instructions (valgrind), multiply-accumulates, and the microseconds that this",
        "machine's peaks allow if each kernel moves each operand once while it computes; peaks are measured in the",
        "same rounds, with a working set of the model's size. The digest covers losses and weights after a few steps;",
        f"the last column is that of `siracusa`'s plan on the simulator. {record['processor']}.",
        "",
        "| model | instructions | MACs | per MAC | GFLOP/s | GB/s | peaks allow | reached | digest | `siracusa` |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        counts = f"{row.instructions} | {row.macs} | {row.instructions / row.macs:.2f}"
        roof = f"{row.gflops} | {row.gigabytes} | {row.roof_us:.0f} | {row.roof_us / row.native_us:.0%}"
        lines.append(f"| {row.model} | {counts} | {roof} | `{row.digest[:8]}` | `{row.simulated_digest[:8]}` |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
