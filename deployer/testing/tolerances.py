"""The error bounds of operators, by class, read from tolerances.toml, which explains each of them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from deployer.core.files.reading import own_toml
from deployer.core.operator import Operator
from deployer.core.target import TARGETS_DIR
from deployer.expressions.functions import APPROXIMATIONS, is_exact
from deployer.expressions.tree import calls
from deployer.kernel_variants.conditions import listed_kernels
from deployer.operators.base.elementwise import Broadcasting, Flat
from deployer.operators.base.elementwise_dsl import printed_kernels
from deployer.operators.base.views import Folded
from deployer.testing.bench import step_of
from deployer.testing.runs import KernelRuns

ROUNDING = re.compile(r"fmaf|(?:math|trig)_f32\.h|sum_f32\.h|[+*]= [^;)]*;")
"""What rounds more than once in the C of a kernel: fused operations, functions, and sums and products as they grow."""


@dataclass(frozen=True)
class Bound:
    """Error bound of a result: atol + rtol * |reference|."""

    rtol: float
    atol: float


@cache
def table() -> dict[str, Any]:
    """The file's content."""
    return own_toml(Path(__file__).with_suffix(".toml"))


@cache
def class_of(operator: Operator) -> str:
    """The class of an operator: elementwise where it is declared as such, else that of its family.

    What reduces along a dim is no elementwise operator but a reduction. Families that no class names, such as those of
    other packages, are elementwise until they reduce, which is the strictest.
    """
    steps = [step_of(operator, sample) for sample in operator.samples()]
    reduces = any(d.kind == "reduction" for step in steps for d in step.access.dims)
    name = "elementwise" if isinstance(operator, Flat | Broadcasting) and not reduces else _of_family(operator)
    return "reduction" if reduces and name == "elementwise" else name


def _of_family(operator: Operator) -> str:
    """The class of the family, the file in which an operator is."""
    family = type(operator).__module__.split(".")[-1]
    return next((name for name, row in table()["classes"].items() if family in row.get("families", ())), "elementwise")


@cache
def sources_of(operator: Operator) -> tuple[str, ...]:
    """The C files that compute the samples of an operator, from the folder of targets."""
    runs = KernelRuns()
    for sample in operator.samples() if not isinstance(operator, Folded) else ():
        step = step_of(operator, sample)
        runs(step.node, step.arrays)
    return tuple(sorted(runs.sources.values()))


def bound(operator: Operator, judgment: str, dtype: np.dtype[Any], sources: Iterable[str] | None = None) -> Bound:
    """Return a class's bound for a judgment, `forward` or `gradient`, in a dtype.

    An output that is a copy or a single operation, which IEEE 754 rounds in one way, has to be exact where its family's
    class says so: `sources` are the C files that computed it, by default those of the operator.
    """
    if dtype.kind in "iub":
        return Bound(0.0, 0.0)
    row = table()["classes"][class_of(operator)]
    exact = judgment == "forward" and "single" in table()["classes"][_of_family(operator)]
    single = row.get("single") if exact else None
    if single and not any(_rounds(file) for file in (sources_of(operator) if sources is None else sources)):
        return Bound(**single)
    entry = row[dtype.name][judgment]
    return Bound(entry["rtol"], entry["atol"])


@cache
def _rounds(file: str) -> bool:
    """Whether a C file of the folder of targets rounds more than once, or the formula that it is printed from."""
    operator = printed_kernels().get(file.removesuffix(".c"))
    if operator is None:
        place, _, symbol = file.partition(": ")
        path = TARGETS_DIR / place
        text = _listed_text(path.parent, symbol) if symbol else path.read_text()
        return ROUNDING.search(text) is not None
    functions = [call.function for call in calls(*operator.formulas())]
    return sum(not is_exact(f) for f in functions) > 1 or any(f.header in APPROXIMATIONS for f in functions)


def _listed_text(folder: Path, symbol: str) -> str:
    """The C of a kernel of a folder's list, with that of the header whose function it calls: that is the kernel."""
    code = listed_kernels(folder)[symbol]
    places = [place / code.body for place in (folder, folder.parent / "include")] if code.function else []
    return "".join([code.text(symbol), *(place.read_text() for place in places if place.is_file())])
