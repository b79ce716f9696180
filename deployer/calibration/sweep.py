"""Kernel calls of the calibration: all sweeps, interleaved so that each call finds its code evicted."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deployer.calibration import measure
from deployer.calibration.measure import KernelJob
from deployer.core.cost import cost_key
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import Work
from deployer.core.operator import Operator, file_of, registry
from deployer.core.samples import Sample
from deployer.core.target import Target
from deployer.kernel_variants.costs import costed_work

TOGETHER = 1300
"""The most calls in one measuring program."""
FEW = 5
"""A function with fewer measured calls is fitted with all calls of their kind: a fit has four unknowns."""


@dataclass(frozen=True)
class CalibrationCall:
    """Kernel call to measure, the function that its costs belong to, and its work by the `cost_model`."""

    code: str
    job: KernelJob
    work: Work
    cost_model: str = ""

    @property
    def key(self) -> str:
        """The key of its cost."""
        return cost_key(self.code, self.work.cost_class)

    @property
    def kind(self) -> tuple[str, str, str]:
        """Key of calls with comparable costs: kernel symbol, cost model and variant."""
        return self.job.kernel.symbol, self.cost_model, self.work.cost_class


@dataclass(frozen=True)
class CalibrationPoint:
    """A measured call: its work, its cycles after calls of other kernels and with warm caches, dispatch excluded."""

    label: str
    work: Work
    cold: int
    warm: int


def measured_points(target: Target, folder: Path, dispatch: int) -> list[tuple[str, list[CalibrationPoint]]]:
    """For each kernel and cost class, by their keys, its measured calls in all operators.

    Work in several phases says nothing of any of them, and is left out where the class has other calls. A fit over few
    calls would say nothing of larger ones: they count together with those of their kind.
    """
    calls, found = mixed(list(sweep_calls(target))), dict[str, list[CalibrationPoint]]()
    for begin in range(0, len(calls), TOGETHER):
        batch = calls[begin : begin + TOGETHER]
        results = measure.measure_jobs(target, [call.job for call in batch], folder / str(begin))
        for call, m in zip(batch, results, strict=True):
            cold, warm = (max(cycles - dispatch, 1) for cycles in (m.cold, m.warm))
            found.setdefault(call.key, []).append(CalibrationPoint(m.label, call.work, cold, warm))
    own = {key: [p for p in points if p.work.then is None] or points for key, points in sorted(found.items())}
    return list(with_others(own, {call.key: call.kind for call in calls}).items())


def with_others(
    own: Mapping[str, list[CalibrationPoint]], kinds: Mapping[str, tuple[str, str, str]]
) -> dict[str, list[CalibrationPoint]]:
    """The points of each key, and where these are few those of all keys of its kind."""
    together = dict[tuple[str, str, str], list[CalibrationPoint]]()
    for key, points in own.items():
        together.setdefault(kinds[key], []).extend(points)
    return {key: points if len(points) >= FEW else together[kinds[key]] for key, points in own.items()}


def mixed(calls: Sequence[CalibrationCall]) -> list[CalibrationCall]:
    """The calls in an order in which those of each cost class are as far from each other as they can be.

    Others run in between, so that the first run of each finds its code evicted.
    """
    counts = dict[str, int]()
    for call in calls:
        counts[call.key] = counts.get(call.key, 0) + 1
    seen, places = dict[str, int](), []
    for call in calls:
        seen[call.key] = seen.get(call.key, 0) + 1
        places.append((seen[call.key] - 0.5) / counts[call.key])
    return [calls[i] for i in sorted(range(len(calls)), key=lambda i: (places[i], i))]


def sweep_calls(target: Target) -> Iterator[CalibrationCall]:
    """The calls of all operators' sweeps, with the work that costs of the target have for them."""
    for name, operator in registry().items():
        if operator.kernel is not None and name == operator.name:
            for sample in operator.sweep():
                yield from _call(operator, sample, target)


def _call(operator: Operator, sample: Sample, target: Target) -> Iterator[CalibrationCall]:
    """The kernel call of a sample in one tile, with its work; nothing where the operator is lowered to others."""
    names = tuple(f"x{i}" if x is not None else "" for i, x in enumerate(sample.inputs))
    file = file_of(operator)
    given = {i: x for i, x in enumerate(sample.inputs) if x is not None and i in file.static_inputs}
    static = [i for i, x in given.items() if file.is_static(i, x)]
    assert not static, f"{operator.name}: a sweep gives static inputs as attributes"
    outputs = tuple(f"y{i}" for i in range(sample.outputs))
    node = Node(sample.label, operator.name, names, outputs, sample.attrs)
    inputs = [None if x is None else TensorType(str(x.dtype), x.shape) for x in sample.inputs]
    if operator.kernel is None or operator.lower(node, inputs) is not None:
        return
    types = {n: t for n, t in zip(names, inputs, strict=True) if t is not None}
    types |= dict(zip(outputs, operator.infer(node, inputs), strict=False))
    access = operator.access(node, types)
    values = {n: x for n, x in zip(names, sample.inputs, strict=True) if x is not None}
    tile = {d.name: (0, d.size) for d in access.dims}
    job = measure.kernel_job(f"{operator.name} {sample.label}", node, types, values, tile, target.kernel_model, flag=1)
    function = measure.variant_of(job, target)
    code, work = costed_work(operator.kernel.symbol, function, node, access, access.sizes, target.kernel_model)
    yield CalibrationCall(code, job, work, function.work if function else "")
