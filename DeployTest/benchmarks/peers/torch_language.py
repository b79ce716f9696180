"""Processor time of a language model's training step, beside PyTorch on one core.

`python -m DeployTest.benchmarks.peers.torch_language`, where PyTorch is installed, writes torch_language.json and a
table of docs/language-models.md. A step is a pass over one sequence and its update by AdamW: here the program for
`host_flat`, there the eager module, with one thread each. Both take turns, and the least of several rounds counts,
as other processes only ever add to them.
"""

import importlib
import json
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deployer.codegen.harness import segment_input
from deployer.core.ir import Program
from deployer.core.operator import Array
from deployer.core.plan import Options
from deployer.fitting.engine import Trainer
from deployer.fitting.segments import build_segment
from deployer.fitting.task import Task
from deployer.frontend.prepare import Axes
from deployer.lm.architecture import Architecture
from deployer.lm.folder import new_model
from deployer.lm.graph import save_model
from deployer.lm.model import TRAINABLE, forward_model
from deployer.lm.presets import preset
from deployer.lm.weights import initial_weights
from deployer.running.run import run_segment
from deployer.text.bpe import ByteTokenizer
from DeployTest.benchmarks.upkeep.commits import publish

RESULT = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "language-models.md"
MARKS = ("<!-- table beside PyTorch -->", "<!-- end of table beside PyTorch -->")
MODELS: dict[str, dict[str, Any]] = {
    "6 layers of 64": {**preset("llama"), "layers": 6, "hidden": 192},
    "6 layers of 128": {**preset("llama"), "layers": 6, "dim": 128, "hidden": 352, "kv_heads": 2},
}
NATIVE = "host_flat"
PASSES, WARM, ROUNDS = 40, 5, 7
SEED = 0


@dataclass(frozen=True)
class Row:
    """Sizes of a model and its C, and milliseconds of processor time of a step."""

    model: str
    parameters: int
    context: int
    steps: int
    c_bytes: int
    planning_s: float
    ours_ms: float
    torch_ms: float


def problem_of(a: Architecture, folder: Path) -> tuple[Program, dict[str, Array]]:
    """The program of a pass over one sequence and its update, and the weights it begins with."""
    save_model(forward_model(a, initial_weights(a, SEED), None), folder / "model.onnx")
    task = Task(loss="cross_entropy", optimizer="adamw", trainable=TRAINABLE, axes=Axes(1))
    problem = task.problem(folder / "model.onnx", SEED, lambda warning: None)
    files = folder / "train.onnx", folder / "update.onnx"
    problem.write(*files)
    return problem.program(*files), problem.graph.weights


def torch_step(a: Architecture) -> Callable[[list[Array]], None]:
    """A function that trains PyTorch's module of an architecture on one sequence."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    module = importlib.import_module("DeployTest.support.references.torch_language").Decoder(a)
    optimizer = torch.optim.AdamW(module.parameters(), 0.001)

    def step(sample: list[Array]) -> None:
        ids, due = (torch.from_numpy(x.astype(np.int64)) for x in sample)
        optimizer.zero_grad()
        scores = module(ids.reshape(1, -1)).reshape(-1, a.vocab)
        torch.nn.functional.cross_entropy(scores, due.reshape(-1)).backward()
        optimizer.step()

    return step


def processor_time(act: Callable[[], object], who: int) -> float:
    """Seconds that a call takes of this process, or of those it starts."""
    before = resource.getrusage(who)
    act()
    after = resource.getrusage(who)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(name: str) -> Row:
    """The row of a model."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        a = new_model(folder / "new", MODELS[name], ByteTokenizer(), SEED).architecture
        program, weights = problem_of(a, folder)
        begun = time.process_time()
        plan = build_segment(program, Options(NATIVE), folder / "own")
        planning = time.process_time() - begun
        state = Trainer(program, plan, folder / "own").initial(weights)
        draw = np.random.default_rng(SEED)
        shapes = [program.tensors[n].type.shape for n in program.data]
        samples = [[draw.integers(0, a.vocab, shape).astype(np.int32) for shape in shapes] for _ in range(PASSES)]

        def run(count: int) -> float:
            content = segment_input(plan, program, state, 0, samples[:count])
            return processor_time(lambda: run_segment(plan, folder / "own", content, 0), resource.RUSAGE_CHILDREN)

        step = torch_step(a)

        def eager(count: int) -> float:
            return processor_time(lambda: [step(x) for x in samples[:count]], resource.RUSAGE_SELF)

        eager(WARM)
        rounds = [((run(PASSES) - run(WARM)) / (PASSES - WARM), eager(PASSES) / PASSES) for _ in range(ROUNDS)]
        ours, theirs = (1e3 * min(column) for column in zip(*rounds, strict=True))
        c_bytes = sum(path.stat().st_size for path in (folder / "own").glob("*Network.c"))
        return Row(
            name,
            sum(x.size for x in weights.values()),
            a.context,
            len(plan.steps),
            c_bytes,
            round(planning, 1),
            round(ours, 2),
            round(theirs, 2),
        )


def markdown(rows: list[Row]) -> str:
    """A line per model."""
    heads = ("Llama", "parameters", "context", "steps", "C, kB", "planning, s", "ms a step", "PyTorch, ms", "ratio")
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    for r in rows:
        cells = [r.model, f"{r.parameters}", f"{r.context}", f"{r.steps}", f"{r.c_bytes / 1e3:.0f}"]
        cells += [f"{r.planning_s:.1f}", f"{r.ours_ms:.1f}", f"{r.torch_ms:.1f}", f"{r.ours_ms / r.torch_ms:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and renew the result and the page."""
    torch = importlib.import_module("torch")
    rows = [measure(name) for name in MODELS]
    RESULT.write_text(json.dumps({"torch": torch.__version__, "rows": [asdict(r) for r in rows]}, indent=1) + "\n")
    publish(__file__, PAGE, MARKS, markdown(rows))
    print(markdown(rows))


if __name__ == "__main__":
    main()
