"""Gain of prefetch and each rewrite on Siracusa under GVSoC: four models, trained with all and without one each.

`python -m DeployTest.benchmarks.cluster.rewrites` writes rewrites.json and the table of docs/cluster.md: how many more
cycles a training step with its update takes where one is switched off. Losses and weights must be the same bits.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from deployer.planning import fuse
from DeployTest.benchmarks.cluster.gains import L1, PAGE, ROOT, measured
from DeployTest.benchmarks.upkeep.commits import publish
from DeployTest.support.building.cases import case_dir
from DeployTest.support.documents.cycle_tables import add_simulator, end, write_rows

RESULT = Path(__file__).with_suffix(".json")
MARKS = ("<!-- rewrites table -->", "<!-- end of rewrites table -->")
MODELS = ("shared/Autoencoder", "shared/DSCNN", "shared/CCT_LoRA", "shared/ResNet8")
AHEAD, ALL = "ahead", "all"
"""Besides single rewrites: transfers that cross steps, and all rewrites with the shared starts of steps."""


@dataclass(frozen=True)
class Row:
    """Cycles of a training step and of an update of a model `without` something, which an empty text says is nothing.

    `applied` are the rewrites that changed the program.
    """

    model: str
    without: str
    train: int
    optimizer: int
    applied: tuple[str, ...]
    same_bits: bool

    @property
    def cycles(self) -> int:
        """Both."""
        return self.train + self.optimizer


def options(without: str) -> dict[str, object]:
    """The fields of Options that leave something out."""
    if without == AHEAD:
        return {"cross_step_prefetch": False}
    return {"allow_rewrites": False} if without == ALL else {"disabled_rewrites": [without] if without else []}


def rows(model: str, root: Path) -> list[Row]:
    """A model with everything, without prefetch, without each rewrite that changes it, and without any."""
    case, found = case_dir(model, root), list[Row]()
    bits = ""
    for without in ("", AHEAD, *fuse.rules(), ALL):
        if without in fuse.rules() and without not in found[0].applied:
            continue
        figures = measured(case, ROOT, options=options(without))
        bits = bits or figures["bits"]
        applied, same = tuple(figures["rewrites"]), figures["bits"] == bits
        found.append(Row(model, without, figures["train"], figures["optimizer"], applied, same))
        print(found[-1], file=sys.stderr, flush=True)
    return found


def markdown(found: Sequence[Row]) -> str:
    """A row per model: its cycles, and how many more without each; a dash where a rewrite changes nothing."""
    columns = [name for name in (AHEAD, *fuse.rules(), ALL) if any(r.without == name for r in found)]
    heads = [
        f"`{name}`" if name in fuse.rules() else {AHEAD: "prefetch", ALL: "all rewrites"}[name] for name in columns
    ]
    lines = [f"| model | cycles | {' | '.join(heads)} |", f"|---|---:|{'---:|' * len(columns)}"]
    for model in dict.fromkeys(r.model for r in found):
        own = {r.without: r for r in found if r.model == model}
        full = own[""].cycles
        cells = [f"{100 * (own[c].cycles / full - 1):+.1f} %" if c in own else "-" for c in columns]
        lines.append(f"| {model} | {full} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """Measure all, print each; 1 where bits differ."""
    parser = argparse.ArgumentParser(prog="python -m DeployTest.benchmarks.cluster.rewrites", description=__doc__)
    add_simulator(parser)
    parser.add_argument("--only", nargs="+", choices=MODELS, metavar="MODEL", help="print these, and write nothing")
    a = parser.parse_args()
    found = [row for model in a.only or MODELS for row in rows(model, ROOT)]
    text = markdown(found)
    print(text)
    if not a.only:
        write_rows(RESULT, {"l1": L1}, a.simulator, "rewrites", [asdict(r) for r in found])
        publish(__file__, PAGE, MARKS, text)
    return int(not all(r.same_bits for r in found))


if __name__ == "__main__":
    end(main)
