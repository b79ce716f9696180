"""python -m DeployTest.faults.inject table | replay PROGRAM FAULT: plant faults and say who notices."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from DeployTest.support.documents.pages import renew

from . import kernel_bodies, table
from .draw import PER_CLASS, draw, proposals
from .fault import Fault
from .judge import MODES, RESULTS, UNSEEN, Mode, judge, judge_all
from .program import BUFFERINGS, QUANTIZED, RECIPES, Recipe, make

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = ROOT / "docs" / "detection.md"
FOLDER = ROOT / "out" / "detection"
TABLES = {
    "floats": (RECIPES, (table.BEGIN, table.END)),
    "quantized": (QUANTIZED, (table.QUANTIZED_BEGIN, table.QUANTIZED_END)),
}
"""Programs of each table, and its marks in the document."""
KERNELS = "kernels"
"""The table of faults in kernels' C."""
SEEDS = (1, 2, 3)


def rows_of(recipes: Sequence[Recipe], seeds: Sequence[int], per_class: int, jobs: int) -> list[table.Row]:
    """Every program, seed, fault and mode."""
    rows: list[table.Row] = []
    for recipe in recipes:
        for buffering in BUFFERINGS:
            begin = time.monotonic()
            program = make(recipe, buffering, FOLDER)
            sites = proposals(program)
            for seed in seeds:
                faults = draw(program, seed, per_class, sites)
                for fault, mode, judgement in judge_all(program, faults, MODES, jobs):
                    rows.append(table.Row(seed, program.name, fault, mode, judgement))
            of = [r for r in rows if r.program == program.name]
            shown = ", ".join(f"{count} {name}" for name, count in sorted(table.counted(of).items()))
            print(f"{program.name}: {shown}; {time.monotonic() - begin:.0f} s", flush=True)
    return rows


def document(arguments: argparse.Namespace) -> Path:
    """The document to renew: a copy where fewer or other faults are drawn than those of the committed one."""
    drawn = tuple(arguments.seeds), arguments.per_class, arguments.each
    if arguments.output is not None:
        return Path(arguments.output)
    if drawn == (SEEDS, PER_CLASS, kernel_bodies.EACH):
        return DOCUMENT
    FOLDER.mkdir(parents=True, exist_ok=True)
    copy = FOLDER / DOCUMENT.name
    copy.write_text(DOCUMENT.read_text())
    print(f"other faults than those of {DOCUMENT}: tables go to {copy}; -o names another document")
    return copy


def make_table(arguments: argparse.Namespace) -> int:
    """Write the tables into the document, and the list of undetected faults into the folder of the programs."""
    rows: list[table.Row] = []
    output, in_kernels = document(arguments), list[kernel_bodies.KernelFault]()
    for name in arguments.tables:
        if name == KERNELS:
            in_kernels = kernels_table(arguments, output)
            continue
        recipes, marks = TABLES[name]
        own = rows_of(recipes, arguments.seeds, arguments.per_class, arguments.jobs)
        output.write_text(table.renewed(output.read_text(), own, marks))
        rows += own
    unseen = FOLDER / "unseen.md"
    unseen.write_text("\n".join([table.unseen_list(rows), *kernel_bodies.unseen(in_kernels)]))
    count = table.counted(rows)
    count.update(fault.judgement.result for fault in in_kernels if fault.judgement)
    print(", ".join(f"{count[name]} {name}" for name in RESULTS), f"; {output}, {unseen}")
    return 1 if count[UNSEEN] else 0


def kernels_table(arguments: argparse.Namespace, output: Path) -> list[kernel_bodies.KernelFault]:
    """Write the table of faults in kernels' C; returns these."""
    program = make(QUANTIZED[0], BUFFERINGS[0], FOLDER)
    faults: list[kernel_bodies.KernelFault] = []
    for seed in arguments.seeds:
        for fault in kernel_bodies.planted(program, seed, arguments.each):
            print(fault.mutant, fault.judgement.result if fault.judgement else "refused", flush=True)
            faults.append(fault)
    renew(output, (kernel_bodies.BEGIN, kernel_bodies.END), kernel_bodies.table(faults))
    return faults


def replay(arguments: argparse.Namespace) -> int:
    """Plant one fault and print what becomes of it."""
    name, buffering = arguments.program.split()
    recipe = next(r for r in (*RECIPES, *QUANTIZED) if r.name == name)
    program = make(recipe, buffering, FOLDER)
    judgement = judge(
        program, Fault("given", -1, "", "", (), arguments.fault), Mode(arguments.guards, arguments.dma_order)
    )
    print(judgement.result, judgement.said)
    return 0


def main() -> int:
    """Parse the command line and do it."""
    parser = argparse.ArgumentParser(prog="python -m DeployTest.faults.inject", description=__doc__)
    commands = parser.add_subparsers(required=True)
    making = commands.add_parser("table", help="draw faults, plant them, write docs/detection.md")
    names = [*TABLES, KERNELS]
    making.add_argument("--tables", nargs="+", choices=names, default=names, help="which, of all there are")
    making.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS), help="of the faults' draw")
    making.add_argument("--per-class", type=int, default=PER_CLASS, help="faults of a class per program and seed")
    making.add_argument("--each", type=int, default=kernel_bodies.EACH, help="faults per kernel and seed")
    making.add_argument("--jobs", type=int, default=2, help="programs that run at a time")
    making.add_argument(
        "-o", "--output", type=Path, help=f"the document whose tables are renewed (default: {DOCUMENT.name})"
    )
    making.set_defaults(run=make_table)
    again = commands.add_parser("replay", help="plant one fault, as the list of unseen ones prints it")
    again.add_argument("program", help="a case and its buffering, such as 'dense double'")
    again.add_argument("fault", help="the numbers of its actions")
    again.add_argument("--guards", default="", help="off, fast or full; the simulator's default without it")
    again.add_argument("--dma-order", default="early", help="early, late or random")
    again.set_defaults(run=replay)
    arguments = parser.parse_args()
    return int(arguments.run(arguments))


if __name__ == "__main__":
    sys.exit(main())
