"""Calibrate: measure kernels, dispatch and DMA on a target, fit the cost model, write it next to the target's TOML."""

import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from deployer.calibration import measure
from deployer.calibration.measure import DISPATCH, KernelJob, Measured, TransferJob
from deployer.calibration.overheads import LARGE, SMALL, Profiled, fit_overheads
from deployer.core import target as targets
from deployer.core.cost import cost_key
from deployer.core.errors import OptionProblem
from deployer.core.ir import Node, TensorType
from deployer.core.level import Channel, Hop
from deployer.core.operator import Operator, Sample, Work, registry
from deployer.core.safe_text import toml_comment, toml_string
from deployer.core.target import KernelCost, SmallProgram, Target, costs_file
from deployer.running.output import check_writable, replace_file

SIZES = (256, 1024, 4096, 16384, 65536)
LINES = ((16, 64), (64, 64), (256, 32), (1024, 16))
SMALL_STEPS = 12
"""Programs of at most so many steps are assumed to stay in the instruction cache."""
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Point:
    """A measured kernel call: its work, and its cycles with warm caches, dispatch excluded."""

    label: str
    work: Work
    cycles: int


@dataclass(frozen=True)
class Fit:
    """A kernel's fitted cost, with the median and the largest error as shares of the measured cycles."""

    symbol: str
    cost: KernelCost
    points: int
    median: float
    worst: float


@dataclass(frozen=True)
class Calibration:
    """The target with the fitted costs, and each kernel's fit with its errors."""

    target: Target
    fits: tuple[Fit, ...]


def calibrate_target(name: str, simulator: str, profiled: Profiled, progress: Progress) -> Calibration:
    """Measure everything on the target, fit, and write its costs.toml, which names `simulator` as the machine.

    `profiled` runs whole programs.
    """
    target = targets.load(name)
    if not target.hops:
        cause = f"target {name!r} has one level, so no plan depends on its costs, and there is nothing to measure for"
        raise OptionProblem(cause, hint="[cost] and [kernels.default] in its file, if the report should show cycles")
    costs = costs_file(name)
    with restored_on_failure(costs), tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        progress("dispatch and transfers")
        dispatch, hops = _machine(target, folder / "machine")
        fits = []
        for symbol, points, cold in _points(target, folder / "kernels", dispatch, progress):
            fits.append(fit_kernel(symbol, points, target.cores, cold))
        kernels = {f.symbol: f.cost for f in fits}
        kernels["default"] = _default([f.cost for f in fits])
        fitted = replace(target, dispatch=dispatch, hops=hops, kernels=kernels, step=0, tile=0, contention=0)
        fitted = replace(fitted, small=SmallProgram(0, 0, 0, 1000))
        calibration = Calibration(fitted, tuple(fits))
        _write(costs, calibration, simulator)
        progress("steps and tiles of generated programs")
        loops_cost = fit_overheads(fitted, LARGE, folder / "first", profiled)
        # Plans made as if loops cost nothing have far too many tiles: what counts is measured on better plans.
        rough = replace(fitted, step=loops_cost.step, tile=loops_cost.tile, contention=loops_cost.contention)
        _write(costs, Calibration(rough, tuple(fits)), simulator)
        loops_cost = fit_overheads(fitted, LARGE, folder / "large", profiled)
        small = fit_overheads(fitted, SMALL, folder / "small", profiled)
        cached = SmallProgram(
            SMALL_STEPS, small.step, small.tile, round(1000 * small.cold_share / max(loops_cost.cold_share, 1e-3))
        )
        kernels = {k: replace(c, cold=round(c.cold * loops_cost.cold_share)) for k, c in kernels.items()}
        loops = replace(fitted, step=loops_cost.step, tile=loops_cost.tile, contention=loops_cost.contention)
        fitted = replace(loops, small=cached, kernels=kernels)
        calibration = Calibration(fitted, tuple(fits))
        _write(costs, calibration, simulator)
    return calibration


@contextmanager
def restored_on_failure(costs: Path) -> Iterator[None]:
    """Restore the file of costs where the calibration fails; OSError at once where it cannot be written."""
    check_writable(costs)
    content = costs.read_bytes() if costs.is_file() else None
    try:
        yield
    except BaseException:
        if content is None:
            costs.unlink(missing_ok=True)
        else:
            replace_file(costs, content)
        raise


def _write(costs: Path, calibration: Calibration, simulator: str) -> None:
    replace_file(costs, costs_toml(calibration, simulator).encode())


def fit_kernel(symbol: str, points: Sequence[Point], cores: int, cold: int = 0) -> Fit:
    """Least squares of the relative error over call, multiply-accumulates and elements, none of them negative.

    `cold` is what the first call of a program took longer than later ones.
    """
    rows = np.array([[1.0, *_shares(p.work, cores)] for p in points])
    cycles = np.array([float(p.cycles) for p in points])
    weights = 1.0 / np.maximum(cycles, 1.0)
    best: tuple[float, np.ndarray] | None = None
    for count in range(1, 4):
        for columns in itertools.combinations(range(3), count):
            part = rows[:, columns] * weights[:, None]
            solution = np.linalg.lstsq(part, cycles * weights, rcond=None)[0]
            if (solution < 0).any():
                continue
            error = float(np.square(part @ solution - cycles * weights).sum())
            if best is None or error < best[0] - 1e-12:
                best = (error, np.bincount(columns, solution, 3))
    assert best is not None, "a single non-negative column always fits"
    call, mac, element = best[1]
    cost = KernelCost(round(call), cold, round(1000 * mac), round(1000 * element))
    errors = np.abs(rows @ best[1] - cycles) * weights
    return Fit(symbol, cost, len(points), float(np.median(errors)), float(errors.max()))


def _shares(work: Work, cores: int) -> tuple[float, float]:
    """The multiply-accumulates and the elements of the busiest core."""
    busiest = -(-work.parallel // cores) / max(work.parallel, 1)
    return work.products * busiest, work.elements * busiest


def _machine(target: Target, folder: Path) -> tuple[int, tuple[Hop, ...]]:
    """The cycles of an empty dispatch, and the fitted costs of every hop between two levels."""
    jobs: list[measure.Job] = [DISPATCH]
    shapes = [(n, 1) for n in SIZES] + [(r, n) for r, n in LINES]
    directions: tuple[measure.Direction, ...] = ("in", "out")
    cases = [(level, direction) for level in range(len(target.hops)) for direction in directions]
    for level, direction in cases:
        jobs += [TransferJob(f"{level} {direction} {n}x{r}", direction, r, n, 2 * r, level) for r, n in shapes]
    dispatch, *rest = measure.measure_jobs(target, jobs, folder)
    parts = [rest[i * len(shapes) : (i + 1) * len(shapes)] for i in range(len(cases))]
    hops = []
    for index, hop in enumerate(target.hops):
        both = parts[2 * index : 2 * index + 2]
        issue = round(float(np.median([m.issue[-1] for part in both for m in part])))
        inward, outward = (_channel(part, issue) for part in both)
        hops.append(replace(hop, issue=issue, wait=0, inward=inward, outward=outward))
    return dispatch.warm, tuple(hops)


def _channel(measured: Sequence[Measured], issue: int) -> Channel:
    """The setup, the cost per byte and per line of one direction; `issue`, the core's time to start it, is excluded."""
    shapes = [(n, 1) for n in SIZES] + [(r * n, n) for r, n in LINES]
    rows = np.array([[1.0, size, lines] for size, lines in shapes])
    cycles = np.array([float(m.warm - issue) for m in measured])
    weights = 1.0 / cycles
    setup, per_byte, per_line = np.linalg.lstsq(rows * weights[:, None], cycles * weights, rcond=None)[0]
    return Channel(max(round(setup), 0), max(round(1000 * per_byte), 0), max(round(1000 * per_line), 0))


def _points(target: Target, folder: Path, dispatch: int, progress: Progress) -> Iterator[tuple[str, list[Point], int]]:
    """For each kernel and form: its measured calls in all operators, and the extra cycles of a cold first call."""
    by_key: dict[str, list[tuple[KernelJob, Work]]] = {}
    for name, operator in registry().items():
        if operator.kernel is not None and name == operator.name:
            for job, work in (call for sample in operator.sweep() for call in _job(operator, sample)):
                by_key.setdefault(cost_key(operator.kernel.symbol, work.form), []).append((job, work))
    for symbol, jobs in sorted(by_key.items()):
        progress(symbol)
        results = measure.measure_jobs(target, [job for job, _ in jobs], folder / symbol)
        points = [Point(m.label, work, max(m.warm - dispatch, 1)) for m, (_, work) in zip(results, jobs, strict=True)]
        yield symbol, points, max(results[0].cold - results[0].warm, 0)


def _job(operator: Operator, sample: Sample) -> Iterator[tuple[KernelJob, Work]]:
    """The kernel call of a sample in one tile, with its work; nothing where the operator is lowered to others."""
    names = tuple(f"x{i}" if x is not None else "" for i, x in enumerate(sample.inputs))
    given = {i: x for i, x in enumerate(sample.inputs) if x is not None and i in operator.static_inputs}
    static = [i for i, x in given.items() if operator.is_static(i, x)]
    assert not static, f"{operator.name}: a sweep gives static inputs as attributes"
    outputs = tuple(f"y{i}" for i in range(sample.outputs))
    node = Node(sample.label, operator.name, names, outputs, sample.attrs)
    inputs = [None if x is None else TensorType(str(x.dtype), x.shape) for x in sample.inputs]
    if operator.lower(node, inputs) is not None:
        return
    types = {n: t for n, t in zip(names, inputs, strict=True) if t is not None}
    types |= dict(zip(outputs, operator.infer(node, inputs), strict=False))
    access = operator.access(node, types)
    values = {n: x for n, x in zip(names, sample.inputs, strict=True) if x is not None}
    tile = {d.name: (0, d.size) for d in access.dims}
    job = measure.kernel_job(f"{operator.name} {sample.label}", node, types, values, tile, flag=1)
    yield job, operator.work(node, access, access.sizes)


def _default(costs: Sequence[KernelCost]) -> KernelCost:
    """The cost of kernels without measurements: the median over the measured ones."""
    columns = ([c.call for c in costs], [c.mac_milli for c in costs if c.mac_milli], [c.element_milli for c in costs])
    call, mac, element = (round(float(np.median(column))) if column else 0 for column in columns)
    return KernelCost(call, round(float(np.median([c.cold for c in costs]))), mac, element)


def costs_toml(calibration: Calibration, simulator: str) -> str:
    """The text of a target's costs.toml."""
    t = calibration.target
    lines = [
        toml_comment(f"Measured on {simulator} by `deployer calibrate -p {t.name}`. Cycles; `_milli` are thousandths."),
        f"measured = {toml_string(simulator)}",
        "",
    ]
    for level, hop in zip(t.levels, t.hops, strict=False):
        lines += [
            f"[[hops]] # {level.name} and the next outer level",
            f"issue = {hop.issue}",
            f"wait = {hop.wait}",
            f"shared = {str(hop.shared).lower()}",
            f"in = {_channel_text(hop.inward)}",
            f"out = {_channel_text(hop.outward)}",
            "",
        ]
    lines += [
        "[cost]",
        f"dispatch = {t.dispatch} # an empty kernel on all cores, from call to return",
        f"tile = {t.tile} # loop code of each tile after a step's first",
        f"step = {t.step} # the code of a step",
        f"address = {t.address} # an address that a step sets in a table that it shares",
        f"crossing = {t.crossing} # a first fetch that starts in an earlier step, in that step",
        f"contention = {t.contention} # thousandths by which bytes are slower while kernels run",
        "",
        "[cost.small] # the same for programs of few steps, whose code stays in the instruction cache",
        f"steps = {t.small.steps}",
        f"step = {t.small.step}",
        f"tile = {t.small.tile}",
        f"cold_milli = {t.small.cold_milli}",
        "",
    ]
    fits = {f.symbol: f for f in calibration.fits}
    for symbol, cost in sorted(t.kernels.items()):
        note = ""
        if symbol in fits:
            fit = fits[symbol]
            shares = f"{100 * fit.median:.0f} % in the median, {100 * fit.worst:.0f} % at worst"
            note = f" # {fit.points} calls, off by {shares}"
        lines += [
            f"[kernels.{toml_string(symbol)}]{note}",
            f"call = {cost.call}",
            f"cold = {cost.cold}",
            f"mac_milli = {cost.mac_milli}",
            f"element_milli = {cost.element_milli}",
            "",
        ]
    return "\n".join(lines)


def _channel_text(channel: Channel) -> str:
    return f"{{ setup = {channel.setup}, byte_milli = {channel.byte_milli}, line_milli = {channel.line_milli} }}"
