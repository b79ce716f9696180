"""Processor time of a training step on one flat memory, beside the simulator and PyTorch.

Run as `python -m DeployTest.benchmarks.flat` where PyTorch is installed: writes flat.json and the table of
docs/how-to/target.md. A step is a pass for one sample and its update, with one thread. Times are the least of
several rounds, in which all take turns, as other processes only ever add to them; that of the simulator is their mean.
"""

import argparse
import importlib
import json
import resource
import subprocess
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
from deployer.core.plan import Options, Plan, Running
from deployer.pipeline import Case
from deployer.running.build import compiler, toolchain
from DeployTest.models import autoencoder, transformer
from DeployTest.support.cases import load_case

RESULT = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "how-to" / "target.md"
BEGIN, END = "<!-- flat table -->", "<!-- end of flat table -->"
NATIVE, SIMULATED = "host_flat", "host"
PASSES = {NATIVE: 60, SIMULATED: 4}
ROUNDS = 7


@dataclass(frozen=True)
class Row:
    """Microseconds of a step, and bytes of the plan's one level: the highest in use, and the most that live at once."""

    model: str
    native_us: float
    simulated_us: float
    torch_us: float
    ram: int
    bound: int


@dataclass(frozen=True, eq=False)
class Program:
    """A built case and its plan."""

    case: Case
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


def program(case: Case, target: str, folder: Path) -> Program:
    """The case as a program of so many passes, with nothing to compare."""
    assert case.dataset is not None
    passes = PASSES[target]
    dataset = replace(case.dataset, n_batches=passes, n_accum=1, expected_losses=(0.0,) * passes)
    case = replace(case, dataset=dataset)
    options = Options(target, outermost=targets.load(target).levels[-1].name)
    running, options = Running(passes, 0.0, 0), pipeline.accumulate_of(case, options)
    tiling, plan = pipeline.plan_program(case.program, options, running=running)
    pipeline.write_case(case, tiling, plan, folder)
    pipeline.build_case(plan, folder)
    return Program(case, plan, folder)


def torch_step(model: str, case: Case) -> Callable[[], None] | None:
    """A pass and its update of the same network and samples; None without PyTorch."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return None
    nets: Any = importlib.import_module("DeployTest.support.torch_nets")
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


def measured(model: str, folder: Path) -> Row:
    """A model's row."""
    case = load_case(model, folder)
    native, simulated = (program(case, name, folder / f"{model}_{name}") for name in (NATIVE, SIMULATED))
    step = torch_step(model, case)
    times: dict[str, list[float]] = {"native": [], "simulated": [], "torch": []}
    for _ in range(ROUNDS):
        times["native"].append(native.native())
        times["simulated"].append(simulated.process())
        times["torch"].append(timed(step, PASSES[NATIVE]) if step else 0.0)
    [use] = native.plan.levels
    mean = sum(times.pop("simulated")) / ROUNDS
    least = {name: round(min(values), 1) for name, values in times.items()}
    return Row(model, least["native"], round(mean, 1), least["torch"], use.peak, use.bound)


def main() -> None:
    """Measure the models, and write their rows where all of them were asked for."""
    models = ("simple_mlp", "autoencoder", "transformer", "dscnn", "resnet8", "mobilenet_v1")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(models)}; all are written to a file")
    words, console, rows = parser.parse_args(), Console(), []
    with tempfile.TemporaryDirectory() as scratch:
        for model in words.models or models[1:]:
            row = measured(model, Path(scratch))
            ratio = f"PyTorch {row.torch_us / row.native_us:.2f} x" if row.torch_us else "no PyTorch here"
            console.print(
                f"{model}: {row.native_us} us, simulator {row.simulated_us / row.native_us:.0f} x, {ratio}, {row.ram} B"
            )
            rows.append(row)
    if not words.models and all(row.torch_us for row in rows):
        write(rows)
        console.print(f"written: {RESULT}, {PAGE}", soft_wrap=True)


def write(rows: list[Row]) -> None:
    """Write the results and the page's table."""
    command = compiler(toolchain(targets.load(NATIVE)))
    said = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout
    torch: Any = importlib.import_module("torch")
    record = {"compiler": said.splitlines()[0], "torch": torch.__version__, "rows": [asdict(row) for row in rows]}
    RESULT.write_text(json.dumps(record, indent=1) + "\n")
    head, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n{page_table(record)}\n{END}{rest.split(END)[1]}")


def page_table(record: Mapping[str, Any]) -> str:
    """The table of the results."""
    lines = [
        f"Microseconds of processor time for a pass and its update, one sample, one thread; {record['compiler']},",
        f"PyTorch {record['torch']}. `host` is the simulator. RAM: bytes of the plan, and the most that live at once.",
        "",
        "| model | `host_flat` | `host` | PyTorch | PyTorch / `host_flat` | RAM | lower bound |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in (Row(**row) for row in record["rows"]):
        times = f"{row.native_us:.0f} | {row.simulated_us:.0f} | {row.torch_us:.0f}"
        lines.append(f"| {row.model} | {times} | {row.torch_us / row.native_us:.1f} | {row.ram} | {row.bound} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
