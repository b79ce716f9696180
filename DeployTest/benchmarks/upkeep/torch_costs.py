"""Fixed cost of `deployer.torch.train` of a small CNN by stage, beyond `import torch` itself; needs PyTorch.

`python -m DeployTest.benchmarks.upkeep.torch_costs` writes torch_costs.json and the table of docs/pytorch.md. Seconds
are of processor time with that of the compiler's processes, so other work changes them little; the least of some
rounds counts. Each round is a process: first with an empty cache of compiled kernels, then with what that left there.
Modules are compiled to bytecode before, as an installation does it, whatever the environment says of bytecode.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from DeployTest.benchmarks.upkeep.commits import ROOT, publish

RESULT = Path(__file__).with_suffix(".json")
PAGE = ROOT / "docs" / "pytorch.md"
MARKS = ("<!-- costs table -->", "<!-- end of costs table -->")
ROUNDS, SAMPLES, BATCH = 3, 64, 16
ALONE, REST, ALL = "`import torch`, not counted below", "everything else", "all"
STAGES: dict[str, str] = {
    "deployer.torch.training.capture_objective": "capture of the step",
    "deployer.pipeline.plan_program": "plan",
    "deployer.codegen.generate.segment_files": "C",
    "deployer.running.build.build_program": "compiler",
    "deployer.fitting.loop.TrainingLoop.run": "passes",
    "deployer.torch.updates.FirstUpdates.check": "comparison with PyTorch",
}
"""Functions by the stage that each is."""


def seconds() -> float:
    """Processor time of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def timed(spent: dict[str, float], name: str, stage: str) -> None:
    """Let a function add its time to a stage."""
    path, _, last = name.rpartition(".")
    try:
        owner: Any = importlib.import_module(path)
    except ModuleNotFoundError:
        path, _, kind = path.rpartition(".")
        owner = getattr(importlib.import_module(path), kind)
    function: Callable[..., Any] = getattr(owner, last)

    def measured(*words: Any, **named: Any) -> Any:
        with taken(spent, stage):
            return function(*words, **named)

    setattr(owner, last, measured)


@contextmanager
def taken(spent: dict[str, float], stage: str) -> Iterator[None]:
    """Add what the block takes to a stage."""
    began = seconds()
    yield
    spent[stage] = spent.get(stage, 0.0) + seconds() - began


def round_here() -> dict[str, float]:
    """The seconds of each stage of one training in this process."""
    spent: dict[str, float] = {}
    with taken(spent, ALONE):
        torch: Any = importlib.import_module("torch")
    with taken(spent, ALL):
        with taken(spent, "`import deployer.torch`"):
            front: Any = importlib.import_module("deployer.torch")
        with taken(spent, "PyTorch's tracer, imported by `make_fx`"):
            importlib.import_module("deployer.torch.tracing.imported").import_tracer()
        for name, stage in STAGES.items():
            timed(spent, name, stage)
        nn = torch.nn
        torch.manual_seed(0)
        layers = [nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, padding=1), nn.ReLU()]
        net = nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10))
        data = torch.randn(SAMPLES, 1, 16, 16), torch.randint(0, 10, (SAMPLES,))
        front.train(net, data, "cross_entropy", "adamw", lr=1e-3, batch_size=BATCH, epochs=1, progress=False)
    inner = sum(value for stage, value in spent.items() if stage not in (ALONE, ALL))
    return spent | {REST: spent[ALL] - inner}


def round_in(cache: Path, bytecode: Path) -> dict[str, float]:
    """The same in a process with this cache of compiled kernels, and bytecode in a folder."""
    words = [sys.executable, "-m", "DeployTest.benchmarks.upkeep.torch_costs", "--round"]
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "PYTHONPYCACHEPREFIX": str(bytecode)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure, print and write the table; with `--round` print one round."""
    if sys.argv[1:] == ["--round"]:
        print(json.dumps(round_here()))
        return
    rounds = list[tuple[dict[str, float], dict[str, float]]]()
    with tempfile.TemporaryDirectory() as bytecode:
        for number in range(ROUNDS + 1):
            with tempfile.TemporaryDirectory() as cache:
                pair = round_in(Path(cache), Path(bytecode)), round_in(Path(cache), Path(bytecode))
            rounds += [pair] if number else []
    least = {stage: [round(min(pair[i][stage] for pair in rounds), 2) for i in (0, 1)] for stage in rounds[0][0]}
    version = importlib.import_module("torch").__version__
    # The module imports the compiler, which a round has to do itself.
    machine = importlib.import_module("DeployTest.benchmarks.flat").processor()
    record = {"processor": machine, "torch": version, "stages": least}
    RESULT.write_text(json.dumps(record, indent=1) + "\n")
    print(page_table(record))
    publish(__file__, PAGE, MARKS, page_table(record))


def page_table(record: Mapping[str, Any]) -> str:
    """The table of the results."""
    lines = [
        f"Seconds of processor time, least of {ROUNDS} processes ({record['processor']}), PyTorch {record['torch']}:",
        "",
        "| stage | first training on a machine | later ones |",
        "|---|---:|---:|",
    ]
    order = [stage for stage in record["stages"] if stage != ALL] + [ALL]
    lines += [f"| {stage} | {' | '.join(f'{x:.2f}' for x in record['stages'][stage])} |" for stage in order]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
