"""Measure training on Siracusa under GVSoC: writes siracusa.json and the table of docs/siracusa.md.

Run as `python -m DeployTest.benchmarks.siracusa`.

Cycles are deterministic. FLOP counts multiply-accumulates alone, as two operations each; the bound of a pass is
max(MACs / 4, DMA bytes / 8 per direction), what the four FPUs and the DMA engine could do at best.
"""

import argparse
import itertools
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypedDict

from rich.console import Console

from deployer.core import target as targets
from deployer.core.cost import all_macs
from deployer.core.operator import operator_of
from deployer.testing.bench import kernel_model
from DeployTest.benchmarks.upkeep.commits import publish
from DeployTest.support.building.cases import Built, compile_case, load_case, result_hash, worst_difference
from DeployTest.support.documents.cycle_tables import add_simulator
from DeployTest.support.tolerances import table

MODEL = kernel_model()

RESULT = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "siracusa.md"
MARKS = ("<!-- siracusa table -->", "<!-- end of siracusa table -->")
CASES: tuple[tuple[str, tuple[int, ...], tuple[int | None, ...]], ...] = (
    ("simple_mlp", (64000,), (None,)),
    ("autoencoder", (128000, 32000), (None,)),
    ("deep_autoencoder", (64000,), (None,)),
    ("shared/DSCNN", (128000, 16000), (None,)),
    ("dscnn", (128000,), (None,)),
    ("shared/ResNet8", (128000,), (None,)),
    ("mobilenet_v1", (128000,), (1800000, 512000)),
    ("cct", (128000,), (1800000,)),
)
"""Model, L1 budgets, and L2 budgets where tensors may live in L3."""
FUSED = "auto, fused"
"""What `auto` makes of pass and update in one graph, where there is one pass per update."""
MODES = ("single", "double", "auto", FUSED)
MACS_PER_CYCLE = 4
BYTES_PER_CYCLE = 8


class Memory(TypedDict):
    """Memory limits of tensors: bytes of L2, and the outermost level."""

    l2: int | None
    outermost: str


@dataclass(frozen=True)
class Row:
    """One measured run."""

    model: str
    l1: int
    l2: int | None
    mode: str
    train_cycles: int
    opt_cycles: int
    macs: int
    flop_per_cycle: float
    bound_cycles: int
    bound_share: float
    predicted_train: int
    predicted_opt: int
    staged_bytes: int
    staged_cycles: int
    staged_waits: int
    c_bytes: int
    result: str


def measured(built: Built, mode: str, l1: int, l2: int | None, model: str) -> Row:
    """Run a built case and relate its cycles to the work and the bound."""
    outcome = built.run()
    if worst_difference(built.case, outcome) > table()["training"]["weight"]:
        raise SystemExit(f"{model} {mode} {l1}: wrong result")
    cycles = int(outcome.bench["train_cycles"])
    steps = [s for s in built.tiling.lifetimes.schedule.steps if s.graph == "train"]
    work = [operator_of(s.node).work(s.node, s.access, s.access.sizes, MODEL) for s in steps]
    macs = sum(map(all_macs, work))
    moved = [s for s in built.plan.steps if s.graph == "train"]
    traffic = max(sum(s.bytes_in for s in moved), sum(s.bytes_out for s in moved))
    bound = max(macs // MACS_PER_CYCLE, traffic // BYTES_PER_CYCLE)
    return Row(
        model=model,
        l1=l1,
        l2=l2,
        mode=mode,
        train_cycles=cycles,
        opt_cycles=int(outcome.bench["opt_cycles"]),
        macs=macs,
        flop_per_cycle=round(2 * macs / cycles, 3),
        bound_cycles=bound,
        bound_share=round(bound / cycles, 3),
        predicted_train=built.plan.cycles("train"),
        predicted_opt=built.plan.cycles("optimizer"),
        staged_bytes=sum(s.staging.bytes_in + s.staging.bytes_out for s in moved if s.staging),
        staged_cycles=sum(s.staging.busy for s in moved if s.staging),
        staged_waits=sum(s.staging.wait for s in moved if s.staging),
        c_bytes=sum(path.stat().st_size for path in built.directory.glob("*Network.c")),
        result=result_hash(outcome)[:12],
    )


def rows(target: str, folder: Path, console: Console, kept: Sequence[Row], modes: Sequence[str] = MODES) -> list[Row]:
    """All runs in order, of some modes; a model is not measured in modes of which it has rows in `kept`."""
    found = []
    for model, sizes, budgets in CASES:
        known = {(row.l1, row.l2, row.mode): row for row in kept if row.model == model}
        if {mode for _, _, mode in known} >= set(modes):
            found += known.values()
            continue
        case = load_case(model, folder)
        once = case.dataset is not None and case.dataset.n_accum == 1
        for cell in itertools.product(sizes, budgets, [m for m in MODES if once or m != FUSED]):
            l1, l2, mode = cell
            if cell in known:
                found.append(known[cell])
            elif mode in modes:
                with console.status(f"{model} {l1} {mode}"):
                    memory: Memory = {"l2": l2, "outermost": "L3" if l2 else "L2"}
                    strategy, joint = ("auto", True) if mode == FUSED else (mode, False)
                    built = compile_case(case, folder / "c", strategy, l1, target=target, joint=joint, **memory)
                    found.append(measured(built, mode, l1, l2, model))
    return found


def markdown(found: Sequence[Row], simulator: str) -> str:
    """The page's table."""
    lines = [
        f"Cycles per mini-batch (batch 1) and per update on {simulator}, `riscv64-unknown-elf-gcc` 12.2:",
        "",
        "| model | L1 | L2 | buffering | train | predicted | optimizer | FLOP/cycle | share of bound |",
        "|---|---:|---:|---|---:|---:|---:|---:|---:|",
    ]
    for r in found:
        off = 100 * (r.predicted_train - r.train_cycles) / r.train_cycles
        l2 = r.l2 or "all"
        cells = (r.model, r.l1, l2, r.mode, r.train_cycles, f"{off:+.1f} %", r.opt_cycles, f"{r.flop_per_cycle:.2f}")
        lines.append(f"| {' | '.join(map(str, cells))} | {100 * r.bound_share:.0f} % |")
    return "\n".join(lines)


def main() -> None:
    """Measure, write the result, and put the table into its page."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_simulator(parser)
    parser.add_argument("--only", nargs="+", metavar="MODEL", help="measure these again, keep other rows")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES, help="measure these bufferings alone")
    arguments = parser.parse_args()
    console = Console(stderr=True)
    targets.load("siracusa")
    before = json.loads(RESULT.read_text())["rows"] if arguments.only else []
    again = set(itertools.product(arguments.only or (), arguments.modes))
    kept = [Row(**row) for row in before if (row["model"], row["mode"]) not in again]
    with tempfile.TemporaryDirectory() as name:
        found = rows("siracusa", Path(name), console, kept, arguments.modes)
    RESULT.write_text(
        json.dumps({"simulator": arguments.simulator, "rows": [asdict(r) for r in found]}, indent=1) + "\n"
    )
    text = markdown(found, arguments.simulator)
    print(text)
    publish(__file__, PAGE, MARKS, text)


if __name__ == "__main__":
    main()
