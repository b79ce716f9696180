"""Test cases: their sources, compilation and run of one, and the hash of its results."""

import hashlib
import importlib
import itertools
import tomllib
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypedDict

import numpy as np
import pytest

from deployer import judging, pipeline
from deployer.core.plan import Options, Plan, Tiling
from deployer.pipeline import Case
from deployer.running.run import Outcome
from deployer.verify import verdict
from deployer.verify.tolerances import TOLERANCES

HERE = Path(__file__).resolve().parents[2]
SHARED = HERE.parent.parent / "shared" / "data"
CANONICAL_L1 = 240000
STRATEGY = {"singlebuffer": "single", "doublebuffer": "double", "auto": "auto"}


class Memory(TypedDict):
    """Budget of L2 in bytes, the target's where None, and the outermost level tensors may live in."""

    l2: int | None
    outermost: str


@dataclass(frozen=True)
class Entry:
    """One row of the registry."""

    test: str
    level: str
    mode: str
    l1: int
    l2: int | None = None
    slow: bool = False
    machines: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The test's id."""
        return f"{self.test}-{self.level}-{self.mode}-{self.l1}" + (f"-{self.l2}" if self.l2 else "")

    @property
    def memory(self) -> "Memory":
        """Its levels, as `compile_case` takes them."""
        return {"l2": self.l2, "outermost": self.level}


@cache
def registry() -> tuple[Entry, ...]:
    """All rows of registry.toml in file order."""
    table = tomllib.loads((HERE / "registry.toml").read_text())
    rows = []
    for test, levels in table.items():
        for level, modes in levels.items():
            quick, outer, machines = modes.pop("quick", None), modes.pop("l2", [None]), modes.pop("machines", [])
            for mode, sizes in modes.items():
                for size, l2 in itertools.product(sizes, outer):
                    quick_sizes = quick.get(mode, []) if isinstance(quick, dict) else quick
                    slow = quick_sizes is not None and size not in quick_sizes
                    rows.append(Entry(test, level, mode, size, l2, slow, tuple(machines)))
    return tuple(rows)


def parameters(long: Container[str] = (), **fields: object) -> list[object]:
    """The registry as pytest parameters with platform, level and mode marks; `fields` selects entries by field.

    Rows of the `long` tests are slow, whatever the registry says.
    """
    rows = []
    for entry in registry():
        if all(getattr(entry, key) == value for key, value in fields.items()):
            marks = [getattr(pytest.mark, entry.level.lower()), getattr(pytest.mark, entry.mode)]
            marks += [pytest.mark.slow] if entry.slow or entry.test in long else []
            rows.append(pytest.param(entry, id=entry.label, marks=marks))
    return rows


def crossed(rows: Sequence[tuple[object, ...]], columns: Sequence[object]) -> list[object]:
    """Each row with each column as pytest parameters; the quick suite takes every row and every column, in turn.

    The other pairs are left to the slow matrix.
    """
    few = min(len(rows), len(columns))
    return [
        pytest.param(*row, column, marks=[] if i % few == j % few else [pytest.mark.slow])
        for i, row in enumerate(rows)
        for j, column in enumerate(columns)
    ]


def needs_shared(path: Path) -> Path:
    """The path, or a skip that says what is absent."""
    if not path.exists():
        pytest.skip(f"reference data {path} is absent")
    return path


@cache
def case_dir(test: str, root: Path) -> Path:
    """The training folder of a test, generated below `root` where it is one of ours."""
    if test.startswith("shared/"):
        base = needs_shared(SHARED / "training" / test.removeprefix("shared/"))
        return next(base.glob("*_train"))
    name, _, batch = test.partition("_batch")
    generator = importlib.import_module(f"DeployTest.models.{name}")
    return Path(generator.generate(root / test, **({"batch": int(batch)} if batch else {})))


@cache
def load_case(test: str, root: Path) -> Case:
    """A test's case."""
    return pipeline.load_training(case_dir(test, root))


@dataclass(frozen=True, eq=False)
class Built:
    """A compiled case."""

    case: Case
    tiling: Tiling
    plan: Plan
    directory: Path

    def run(self, *flags: str) -> Outcome:
        """Run it with flags of the simulator."""
        return pipeline.execute(self.case, self.plan, self.directory, flags)


_planned: dict[tuple[int, str], tuple[Case, Tiling, Plan]] = {}


def planned(case: Case, options: Options) -> tuple[Tiling, Plan]:
    """The case's plan under these options; tests that ask for it again share it, as equal options give equal plans."""
    key = (id(case), repr(options))
    if key not in _planned:
        _planned[key] = (case, *pipeline.plan_case(case, options))
    return _planned[key][1:]


def compile_case(
    case: Case,
    directory: Path,
    strategy: str,
    l1: int,
    *,
    target: str = "host",
    cores: int | None = None,
    sanitize: bool = False,
    opt_out: tuple[str, ...] = (),
    l2: int | None = None,
    outermost: str = "L2",
    allow_rewrites: bool = True,
    joint: bool = False,
    cross_step_prefetch: bool = True,
    canonical_batch: bool = False,
) -> Built:
    """Plan, print and build a case; tensors live up to level `outermost`, in at most `l2` bytes of L2."""
    budgets = {"L1": l1} | ({"L2": l2} if l2 else {})
    options = Options(
        target,
        strategy,
        budgets,
        cores,
        opt_out=opt_out,
        allow_rewrites=allow_rewrites,
        outermost=outermost,
        fuse_update=joint,
        cross_step_prefetch=cross_step_prefetch,
        canonical_batch=canonical_batch,
    )
    tiling, plan = planned(case, options)
    pipeline.write_case(case, tiling, plan, directory)
    pipeline.build_case(plan, directory, sanitize)
    return Built(case, tiling, plan, directory)


def result_hash(outcome: Outcome) -> str:
    """SHA-256 over the bits of all losses and final weights."""
    text = hashlib.sha256(np.array(outcome.losses, np.float32).tobytes())
    for name in sorted(outcome.arrays):
        text.update(outcome.arrays[name].tobytes())
    return text.hexdigest()


def worst_difference(case: Case, outcome: Outcome) -> float:
    """Largest absolute difference of a loss or a final weight from what the case expects; infinite for NaN."""
    assert case.dataset is not None
    pairs: list[tuple[Sequence[float] | np.ndarray, Sequence[float] | np.ndarray]] = []
    pairs.append((outcome.losses, case.dataset.expected_losses))
    pairs += [(outcome.arrays[name], expected) for name, expected in case.expected.items()]
    worst = 0.0
    for actual, expected in pairs:
        distance = verdict.distances(np.asarray(actual), np.asarray(expected))
        worst = max(worst, float(np.nan_to_num(distance, nan=np.inf, posinf=np.inf).max(initial=0.0)))
    return worst


def faults(built: Built, outcome: Outcome) -> tuple[str, ...]:
    """Return the verdict's faults of a run: values, movements of tensors, accumulators."""
    return judging.judged(built.case, built.plan, outcome, TOLERANCES.weight)[0].faults


def check_clock(built: Built, outcome: Outcome) -> None:
    """The simulator took the plan's cycles for each graph of a training case."""
    cycles = [int(outcome.bench[name]) for name in ("train_cycles", "opt_cycles")]
    assert cycles == [built.plan.cycles(graph) for graph in built.plan.graphs]


_canonical: dict[str, str] = {}


def canonical_hash(test: str, root: Path, directory: Path) -> str:
    """Hash of a test's results on one core, single-buffered, each step alone, in an L1 that holds nearly all."""
    if test not in _canonical:
        built = compile_case(
            load_case(test, root),
            directory / "canonical",
            "single",
            CANONICAL_L1,
            cores=1,
            outermost="L3",
            cross_step_prefetch=False,
        )
        _canonical[test] = result_hash(built.run("--dma-order", "early"))
    return _canonical[test]
