"""The accuracy of kernels beside that of others: errors in u = 2^-24 against float64, and the contract about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from deployer.core.ir import Node
from deployer.core.operator import Array, registry
from deployer.core.samples import Sample
from deployer.core.traits.training import NO_TRAINING
from deployer.testing.bench import BenchStep, step_of
from deployer.testing.gradients import forward_and_backward
from deployer.testing.runs import KernelRuns
from deployer.testing.runtime import run_by_onnx
from DeployTest.support.kernels.accuracy_cases import Case
from DeployTest.support.references.peers import run_by_torch, torch_module
from DeployTest.support.tolerances import table

U = 2.0**-24
OURS, NUMPY, ONNX, TORCH = COLUMNS = ("ours", "numpy", "onnxruntime", "PyTorch")
ABSENT, KEPT, BROKEN = "-", "kept", "**broken**"
HEAD = (
    f"| function | result | data | length | {' | '.join(COLUMNS)} | contract |",
    "|---|---|---|---|---|---|---|---|---|",
)
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "accuracy.md"


@dataclass(frozen=True)
class Error:
    """The root mean square and the largest error of a result, in u."""

    rms: float
    largest: float

    def __str__(self) -> str:
        return f"{_number(self.rms)} / {_number(self.largest)}"


def _number(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


@dataclass(frozen=True)
class Row:
    """A result of a case: the error of each who computed it, ours first."""

    function: str
    result: str
    data: str
    sums: int
    errors: Mapping[str, Error]

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Key of the computation, in words."""
        return self.function, self.result, self.data, str(self.sums) if self.sums > 1 else ABSENT

    @property
    def best(self) -> float:
        """The smallest error in the mean of the others."""
        return min(e.rms for who, e in self.errors.items() if who != OURS)

    @property
    def allowed(self) -> float:
        """The largest error in the mean that the contract allows us."""
        return allowed(self.best)

    @property
    def kept(self) -> bool:
        """Whether the contract is kept; an error that is no number breaks it."""
        return self.errors[OURS].rms <= self.allowed

    @property
    def verdict(self) -> str:
        """The contract in a word."""
        return KEPT if self.kept else BROKEN


def allowed(best: float) -> float:
    """The largest error in the mean that the contract allows where the best of the others has this one."""
    bound = table()["peers"]
    return float(max(bound["rms"], bound["times"] * best))


def measure(case: Case, others: bool = True) -> list[Row]:
    """A row per result of a case, over all its trials; without the others only with our error."""
    trials = [_trial(case, number, others) for number in range(case.trials)]
    rows = []
    for result in case.results:
        exact = np.stack([trial["float64"][result] for trial in trials])
        errors = {}
        for who in (OURS, NUMPY, ONNX, TORCH):
            if all(result in trial.get(who, {}) for trial in trials):
                errors[who] = error(np.stack([trial[who][result] for trial in trials]), exact, case.per_element)
        rows.append(Row(case.function, result, case.data, case.sums, errors))
    return rows


def error(values: Array, exact: Array, per_element: bool) -> Error:
    """The error in u of each element's magnitude, or else of the root mean square of all."""
    assert values.shape == exact.shape, f"{values.shape} instead of {exact.shape}"
    assert values.size, "nothing is compared"
    size = np.abs(exact) if per_element else np.sqrt(np.mean(np.square(exact)))
    share = np.abs(values.astype(np.float64) - exact) / (U * size)
    return Error(float(np.sqrt(np.mean(np.square(share)))), float(share.max()))


def _trial(case: Case, number: int, others: bool) -> dict[str, dict[str, Array]]:
    """The results of everyone by name."""
    inputs = case.draw(number)
    step = step_of(registry()[case.operator], Sample("case", tuple(inputs), dict(case.attrs), case.outputs))
    node = _training_node(step, bool(case.wanted))
    wide = {n: x.astype(np.float64) if x.dtype.kind == "f" else x for n, x in step.values.items()}
    shape = step.types[step.node.outputs[0]].shape
    random = np.random.default_rng([number, 7])
    dout = random.standard_normal(shape).astype(np.float32) if shape else None
    upstream = None if dout is None else dout.astype(np.float64)
    found = {
        "float64": forward_and_backward(node, wide, case.wanted, upstream),
        OURS: forward_and_backward(node, step.values, case.wanted, dout, KernelRuns()),
    }
    if case.numpy and others:
        found[NUMPY] = forward_and_backward(node, step.values, case.wanted, dout)
    torch = _torch() if others else None
    if torch is not None:
        output, gradients = run_by_torch(torch, case.form, inputs, dout, case.wanted)
        found[TORCH] = (output,), gradients
    if case.onnx and others:
        found[ONNX] = (
            tuple(run_by_onnx(step)),
            {int(case.results[n][1:]): _total(dout, a) for n, a in case.totals.items()},
        )
    return {who: _named(case, *results) for who, results in found.items()}


def _total(dout: Array | None, axes: tuple[int, ...]) -> Array:
    """The sum of what arrives over some axes, by ONNX Runtime."""
    sample = Sample("total", (dout,), {"axes": axes, "keepdims": 0})
    return run_by_onnx(step_of(registry()["ReduceSum"], sample))[0]


@cache
def _torch() -> Any:
    return torch_module()


def _training_node(step: BenchStep, trains: bool) -> Node:
    """The node, with the outputs that its gradient reads where one is wanted."""
    training = step.operator.training or NO_TRAINING
    return training.training_form(step.node, lambda name: name) if trains else step.node


def _named(case: Case, outputs: Sequence[Array], gradients: Mapping[int, Array]) -> dict[str, Array]:
    """The results of a case among outputs and gradients; those that are there."""
    found = {str(i): x for i, x in enumerate(outputs)} | {f"d{i}": x for i, x in gradients.items()}
    return {name: found[place] for name, place in case.results.items() if place in found}


def line(row: Row) -> str:
    """A row of the table."""
    texts = [str(row.errors.get(who, ABSENT)) for who in COLUMNS]
    return f"| {' | '.join((*row.key, *texts, row.verdict))} |"


def write(rows: Sequence[Row]) -> None:
    """Replace the tables of the document, and the versions of those compared with."""
    torch = _torch()
    versions = [f"numpy {np.__version__}", f"onnxruntime {onnxruntime.__version__}"]
    versions += [f"PyTorch {torch.__version__.split('+')[0]}"] if torch else []
    parts = {"versions": [", ".join(versions) + "."], "summary": _summary(rows), "rows": [*HEAD, *map(line, rows)]}
    text = DOCUMENT.read_text()
    for name, lines in parts.items():
        begin, end = (f"<!-- {word}{name} -->" for word in ("", "end of "))
        before, _, rest = text.partition(begin)
        text = "\n".join([f"{before}{begin}", *lines, end]) + rest.partition(end)[2]
    DOCUMENT.write_text(text)


def _summary(rows: Sequence[Row]) -> list[str]:
    """A row per function: how many rows keep the contract, and the worst of them beside the best of the others."""
    lines = ["| function | rows | kept | worst row | ours | best of the others |", "|---|---|---|---|---|---|"]
    for function in dict.fromkeys(row.function for row in rows):
        mine = [row for row in rows if row.function == function]
        worst = max(mine, key=lambda row: row.errors[OURS].rms / row.allowed)
        kept = sum(row.kept for row in mine)
        numbers = f"{_number(worst.errors[OURS].rms)} | {_number(worst.best)}"
        lines.append(f"| {function} | {len(mine)} | {kept} | {', '.join(worst.key[1:])} | {numbers} |")
    kept = sum(row.kept for row in rows)
    return [*lines, f"| **all** | {len(rows)} | {kept} | | | |"]


def documented() -> dict[tuple[str, ...], tuple[str, ...]]:
    """The rows of the document: function, result, data and length -> errors and verdict."""
    text = DOCUMENT.read_text().partition("<!-- rows -->")[2].partition("<!-- end of rows -->")[0]
    cells = [tuple(c.strip() for c in row.strip("|").split("|")) for row in text.strip().splitlines()[len(HEAD) :]]
    return {row[:4]: row[4:] for row in cells}
