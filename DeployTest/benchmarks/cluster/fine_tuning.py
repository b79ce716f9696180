"""Fine-tuning of a small language model by adapters of low rank, beside other parts of it and all of it.

`python -m DeployTest.benchmarks.cluster.fine_tuning` writes fine_tuning.json and the table of docs/language-models.md,
in some 15 minutes: memory, transfers and cycles of a pass and its update by the plan for Siracusa, and the loss on
texts that no pass has seen. With `--simulate` it adds cycles under GVSoC, some four minutes for each row. The model
learns one half of the stories of `deployer lm stories`, sorted, so that the halves begin in other ways, and then goes
on with the other half.
"""

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from deployer import pipeline
from deployer.codegen.harness import segment_input
from deployer.core.ir import Program
from deployer.core.operator import Array
from deployer.core.plan import Home, Options, Plan
from deployer.core.target import native
from deployer.fitting.engine import Trainer
from deployer.fitting.segments import build_segment
from deployer.fitting.task import Task, TrainingRun
from deployer.frontend.prepare import Axes
from deployer.lm.adapters.low_rank import ADAPTERS, LowRank
from deployer.lm.evaluation import scores_of, text_loss
from deployer.lm.folder import LanguageModel, new_model, read_model, write_weights
from deployer.lm.graph import save_model
from deployer.lm.model import TRAINABLE, forward_model, parameter_shapes
from deployer.lm.presets import preset
from deployer.lm.rows import read_rows
from deployer.lm.training import train_model
from deployer.lm.weights import initial_weights
from deployer.loops.moves import copies
from deployer.running.run import run_segment
from deployer.text.bpe import ByteTokenizer
from deployer.text.stories import stories
from deployer.verify.checked import state_homes
from DeployTest.benchmarks.upkeep.commits import publish
from DeployTest.support.documents.cycle_tables import add_simulator, end, write_rows

RESULT = Path(__file__).with_name("fine_tuning.json")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "language-models.md"
MARKS = ("<!-- fine-tuning table -->", "<!-- end of fine-tuning table -->")
FIELDS: dict[str, Any] = {**preset("llama"), "layers": 6, "hidden": 192}
STORIES, HELD, BATCH, LEARNED, TUNED, RATE = 2000, 100, 4, 600, 200, 3e-3
"""Stories, those among them that only validate, sequences of a pass, passes of either half, and the rate of all."""
LEVELS = ("L1", "L2", "L3")
STEP_SEED = 5


@dataclass(frozen=True)
class TunedPart:
    """A part of the model that is trained: the weights whose names `trainable` matches, or adapters."""

    name: str
    trainable: str = ""
    adapters: LowRank | None = None


def adapted(layers: str, pattern: str, rank: int) -> TunedPart:
    """Adapters of a rank, whose products count twice."""
    return TunedPart(f"adapters of {layers}, rank {rank}", adapters=LowRank(pattern, rank, 2.0 * rank))


PARTS = (
    TunedPart("all weights"),
    *(
        adapted(*layers, rank)
        for layers in (("q, v", "q_proj|v_proj"), ("all linear layers", "_proj"))
        for rank in (4, 8)
    ),
    TunedPart("the last layer", rf"layers\.{FIELDS['layers'] - 1}\."),
    TunedPart("norms", "norm"),
)


@dataclass(frozen=True)
class Row:
    """Fine-tuning of one part.

    Bytes are those at each level, of gradients and of values in between the most at a time; `peaks` are those of the
    plan. `outer` and `inner` are bytes that a pass and its update move between L3 and L2, and between L2 and L1.
    `measured` is 0 where nothing was simulated. `loss` is that of held stories after as many passes of each part.
    """

    part: str
    trained: int
    weights: tuple[int, ...]
    gradients: tuple[int, ...]
    optimizer: tuple[int, ...]
    values: tuple[int, ...]
    peaks: tuple[int, ...]
    outer: int
    inner: int
    predicted: int
    measured: int
    loss: float


def step_program(part: TunedPart, folder: Path) -> tuple[Program, int, dict[str, Array]]:
    """The program of a pass over one sequence and its update by AdamW, how many numbers it trains, and its weights."""
    model = new_model(folder / "new", FIELDS, ByteTokenizer(), 0, force=True)
    a = model.architecture
    weights = {**initial_weights(a, 0), **(part.adapters.initial(parameter_shapes(a), 0) if part.adapters else {})}
    save_model(forward_model(a, weights, part.adapters), folder / "model.onnx")
    trained = ADAPTERS if part.adapters else part.trainable or TRAINABLE
    task = Task(loss="cross_entropy", optimizer="adamw", trainable=trained, axes=Axes(1))
    problem = task.problem(folder / "model.onnx", 0, lambda warning: None)
    files = folder / "train.onnx", folder / "update.onnx"
    problem.write(*files)
    begun = problem.graph.weights
    return problem.program(*files), sum(array.size for array in begun.values()), begun


def kind_of(program: Program, home: Home) -> str:
    """The kind of what a home holds; what rewrites made is a value in between."""
    tensor = program.tensors.get(home.storage)
    if tensor is None or tensor.role in ("value", "data"):
        return "values"
    if tensor.role == "accumulator":
        return "gradients"
    return "optimizer" if tensor.role == "weight" and tensor.data is not None else "weights"


def level_bytes(plan: Plan, program: Program, kind: str) -> tuple[int, ...]:
    """The most bytes of a kind that a level holds at a time."""
    found = []
    for level in LEVELS:
        homes = [h for h in plan.homes if h.level == level and kind_of(program, h) == kind]
        found.append(max((sum(h.bytes for h in homes if h.first <= s.index <= h.last) for s in plan.steps), default=0))
    return tuple(found)


def cost(part: TunedPart, measures: bool, console: Console) -> Row:
    """The row of a part, without its loss."""
    options = Options("siracusa", outermost=LEVELS[-1])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program, trained, weights = step_program(part, folder)
        if measures:
            plan = build_segment(program, options, folder / "siracusa")
            cycles = simulated(plan, program, weights, folder, console)
        else:
            plan, cycles = pipeline.plan_program(program, options)[1], 0
    moved = [s.staging for s in plan.steps if s.staging]
    kinds = ("weights", "gradients", "optimizer", "values")
    row = Row(
        part.name,
        trained,
        *(level_bytes(plan, program, kind) for kind in kinds),
        tuple(next((level.peak for level in plan.levels if level.name == name), 0) for name in LEVELS),
        sum(s.bytes_in + s.bytes_out for s in moved) + sum(copy.bytes for copy in copies(plan)),
        sum(s.bytes_in + s.bytes_out for s in plan.steps),
        sum(map(plan.cycles, plan.graphs)),
        cycles,
        0.0,
    )
    console.print(row)
    return row


def simulated(plan: Plan, program: Program, weights: Mapping[str, Array], folder: Path, console: Console) -> int:
    """Cycles of a pass and its update under GVSoC; the loss and all weights have the bits of this machine's program."""
    draw = np.random.default_rng(STEP_SEED)
    sample = [draw.integers(0, 257, program.tensors[n].type.shape).astype(np.int32) for n in program.data]
    own = build_segment(program, Options(native().name), folder / "own")
    trainer = Trainer(program, own, folder / "own")
    state = trainer.initial(weights)
    expected, losses = trainer.advance(state, 0, [sample])
    dump, bench = run_segment(plan, folder / "siracusa", segment_input(plan, program, state, 0, [sample]), 0)
    homes = [home.storage for home in state_homes(plan)]
    assert dump == b"".join([losses.tobytes(), *(expected[name].tobytes() for name in homes)]), "the bits differ"
    return int(bench["run_cycles"]) + int(bench["update_cycles"])


def halves(folder: Path) -> tuple[Path, Path, Path]:
    """Files of the first half of the stories, of the second, and of the held ones of the second."""
    texts = sorted(stories(STORIES))
    middle, every = STORIES // 2, STORIES // 2 // HELD
    second = texts[middle:]
    parts = (texts[:middle], [t for i, t in enumerate(second) if i % every], second[::every])
    paths = tuple(folder / f"{name}.txt" for name in ("first", "second", "held"))
    for path, part in zip(paths, parts, strict=True):
        path.write_text("\n".join(part))
    return paths[0], paths[1], paths[2]


def train(model: LanguageModel, text: Path, part: TunedPart, passes: int) -> None:
    """Train a model in its folder, all checks left to the tests."""
    rows = read_rows(text, model.tokenizer, model.architecture)
    task = Task(loss="cross_entropy", optimizer="adamw", lr=RATE, trainable=part.trainable, axes=Axes(BATCH))
    run = TrainingRun(n_steps=passes, checks=0)
    train_model(model, rows.samples, task, run, options=Options(native().name), force=True, adapters=part.adapters)


def loss_of(folder: Path, held: Path) -> float:
    """The mean loss of a token of the held stories."""
    model = read_model(folder)
    rows = read_rows(held, model.tokenizer, model.architecture)
    with scores_of(model, BATCH) as scores:
        return text_loss(scores, rows, BATCH).loss


def quality(console: Console) -> tuple[float, dict[str, float]]:
    """The loss of held stories of the second half before fine-tuning, and after it of each part."""
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first, second, held = halves(folder)
        begun = new_model(folder / "begun", FIELDS, ByteTokenizer(), 0)
        train(begun, first, TunedPart("begin"), LEARNED)
        weights, before = read_model(begun.folder).weights, loss_of(begun.folder, held)
        console.print(f"before: {before:.4f}")
        for part in PARTS:
            model = new_model(folder / "tuned", FIELDS, ByteTokenizer(), 0, force=True)
            write_weights(model, weights)
            train(read_model(model.folder), second, part, TUNED)
            found[part.name] = loss_of(model.folder, held)
            console.print(f"{part.name}: {found[part.name]:.4f}")
    return before, found


def markdown(rows: Sequence[Row], before: float) -> str:
    """A line per part; bytes in kB, those of levels divided by slashes."""
    heads = ("trained", "parameters", "weights", "gradients", "optimizer", "values", "L1 / L2 / L3 in all")
    heads += ("L3-L2", "L2-L1", "cycles predicted", "simulated", "loss")
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    for row in rows:
        kinds = (row.weights, row.gradients, row.optimizer, row.values)
        cells = [row.part, f"{row.trained}", *(f"{kilobytes(sum(kind))}" for kind in kinds)]
        cells.append(" / ".join(map(kilobytes, row.peaks)))
        cells += [kilobytes(row.outer), kilobytes(row.inner), f"{row.predicted / 1e6:.1f} M"]
        cells += [f"{row.measured / 1e6:.1f} M" if row.measured else "", f"{row.loss:.3f}"]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append(f"| nothing | 0 |{' |' * (len(heads) - 3)} {before:.3f} |")
    return "\n".join(lines)


def kilobytes(count: int) -> str:
    """Bytes in thousands."""
    return f"{count / 1e3:.0f}"


def rows_of(record: Mapping[str, Any]) -> list[Row]:
    """The rows of a written result."""
    listed = [{k: tuple(v) if isinstance(v, list) else v for k, v in row.items()} for row in record["rows"]]
    return [Row(**row) for row in listed]


def publish_rows(rows: Sequence[Row], before: float, simulator: str) -> None:
    """Renew the result and the page."""
    write_rows(RESULT, {"target": "siracusa", "before": before}, simulator, "rows", [asdict(row) for row in rows])
    publish(__file__, PAGE, MARKS, markdown(rows, before))


def simulate(parts: Sequence[TunedPart], simulator: str, console: Console) -> None:
    """Add simulated cycles to the written rows of parts, which must be those of this compiler's plans."""
    for part in parts:
        found = cost(part, True, console)
        record = json.loads(RESULT.read_text())
        rows = rows_of(record)
        index = [row.part for row in rows].index(part.name)
        known = rows[index]
        assert replace(known, measured=0, loss=0.0) == replace(found, measured=0), (
            "the plan is another one: run without --simulate"
        )
        rows[index] = replace(known, measured=found.measured)
        publish_rows(rows, record["before"], simulator)


def main() -> int:
    """Measure all, or simulate, and renew the result and the page."""
    parser = argparse.ArgumentParser(prog="python -m DeployTest.benchmarks.cluster.fine_tuning", description=__doc__)
    parser.add_argument("--simulate", action="store_true", help="add cycles under GVSoC to the written table, alone")
    parser.add_argument("--only", default="", metavar="WORD", help="with --simulate: parts with this in their name")
    add_simulator(parser)
    a = parser.parse_args()
    console = Console(stderr=True)
    if a.simulate:
        simulate([part for part in PARTS if a.only in part.name], a.simulator, console)
        return 0
    rows = [cost(part, False, console) for part in PARTS]
    before, losses = quality(console)
    publish_rows([replace(row, loss=losses[row.part]) for row in rows], before, a.simulator)
    print(markdown(rows, before))
    return 0


if __name__ == "__main__":
    end(main)
