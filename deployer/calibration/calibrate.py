"""Calibrate: measure kernels, dispatch and DMA on a target, fit the cost model, write it next to the target's TOML."""

import itertools
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from deployer.calibration import measure
from deployer.calibration.measure import DISPATCH, Measured, TransferJob
from deployer.calibration.overheads import Profiled, fit_overheads
from deployer.calibration.sweep import CalibrationPoint, measured_points
from deployer.core import target as targets
from deployer.core.errors import OptionProblem
from deployer.core.kernel import Work
from deployer.core.level import Channel, Hop
from deployer.core.safe_text import toml_comment, toml_string
from deployer.core.target import KernelCost, Target, costs_file
from deployer.running.output import check_writable, replace_file

SIZES = (256, 1024, 4096, 16384, 65536)
LINES = ((16, 64), (64, 64), (256, 32), (1024, 16))
Progress = Callable[[str], None]


@dataclass(frozen=True)
class LinearFit:
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
    fits: tuple[LinearFit, ...]


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
        progress("kernels")
        fits = [fit_kernel(key, p, target.cores) for key, p in measured_points(target, folder / "kernels", dispatch)]
        kernels = {f.symbol: f.cost for f in fits}
        kernels["default"] = _default([f.cost for f in fits])
        own = target.toolchain.sources if target.toolchain else ()  # no longer those of a target that it simulates
        fitted = replace(target, dispatch=dispatch, hops=hops, kernels=kernels, cost_sources=own, costs_of=name)
        fitted = replace(fitted, step=0, tile=0, contention=0)
        calibration = Calibration(fitted, tuple(fits))
        _write(costs, calibration, simulator)
        progress("steps and tiles of generated programs")
        # Plans made as if loops cost nothing have far too many tiles: what counts is measured on better plans.
        for name in ("first", "second"):
            loops = asdict(fit_overheads(fitted, folder / name, profiled))
            calibration = Calibration(replace(fitted, **loops), tuple(fits))
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


LEAST = 500
"""Calls below so many cycles weigh as little as if they took them: what they are off by decides nothing."""


def fit_kernel(symbol: str, points: Sequence[CalibrationPoint], cores: int) -> LinearFit:
    """Least squares of the relative error over call, multiply-accumulates, elements and runs, none of them negative.

    A cold start is the median of the smaller half of the calls, where it weighs most.
    """
    rows = np.array([[1.0, *_shares(p.work, cores)] for p in points])
    cycles = np.array([float(p.warm) for p in points])
    weights = 1.0 / np.maximum(cycles, LEAST)
    used = [i for i in range(rows.shape[1]) if rows[:, i].any()]
    best: tuple[float, np.ndarray] | None = None
    for count in range(1, len(used) + 1):
        for columns in itertools.combinations(used, count):
            chosen = rows[:, columns] * weights[:, None]
            solution = np.linalg.lstsq(chosen, cycles * weights, rcond=None)[0]
            if (solution < 0).any():
                continue
            error = float(np.square(chosen @ solution - cycles * weights).sum())
            if best is None or error < best[0] - 1e-12:
                best = (error, np.bincount(columns, solution, rows.shape[1]))
    assert best is not None, "a single non-negative column always fits"
    call, mac, element, run = best[1]
    smaller = sorted(points, key=lambda p: p.warm)[: -(-len(points) // 2)]
    cold = round(statistics.median(p.cold - p.warm for p in smaller))
    cost = KernelCost(round(call), max(cold, 0), round(1000 * mac), round(1000 * element), round(1000 * run))
    errors = np.abs(rows @ best[1] - cycles) * weights
    return LinearFit(symbol, cost, len(points), float(np.median(errors)), float(errors.max()))


def _shares(work: Work, cores: int) -> tuple[float, float, float]:
    """The multiply-accumulates, the elements and the runs of the busiest core."""
    busiest = -(-work.parallel // cores) / max(work.parallel, 1)
    return work.products * busiest, work.elements * busiest, work.inner_loop_starts * busiest


def _machine(target: Target, folder: Path) -> tuple[int, tuple[Hop, ...]]:
    """The cycles of an empty dispatch, and the fitted costs of every hop between two levels."""
    jobs: list[measure.Job] = [DISPATCH]
    shapes = [(n, 1) for n in SIZES] + [(r, n) for r, n in LINES]
    directions: tuple[measure.Direction, ...] = ("in", "out")
    cases = [(level, direction) for level in range(len(target.hops)) for direction in directions]
    for level, direction in cases:
        jobs += [TransferJob(f"{level} {direction} {n}x{r}", direction, r, n, 2 * r, level) for r, n in shapes]
    dispatch, *rest = measure.measure_jobs(target, jobs, folder)
    groups = [rest[i * len(shapes) : (i + 1) * len(shapes)] for i in range(len(cases))]
    hops = []
    for index, hop in enumerate(target.hops):
        both = groups[2 * index : 2 * index + 2]
        issue = round(float(np.median([m.issue[-1] for group in both for m in group])))
        inward, outward = (_channel(group, issue) for group in both)
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
        f"double_buffer_setup = {t.double_buffer_setup} # the code that begins and ends a loop with double buffers",
        f"tile = {t.tile} # loop code of each tile after a step's first",
        f"dma_issue = {t.dma_issue} # the code of each transfer that a loop over tiles starts",
        f"step = {t.step} # the code of a step",
        f"arg_patch = {t.arg_patch} # an address that a step sets in a table that it shares",
        f"prefetch_issue = {t.prefetch_issue} # a first fetch that starts in an earlier step, in that step",
        f"contention = {t.contention} # thousandths by which bytes are slower while kernels run",
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
            *([f"run_milli = {cost.run_milli}"] if cost.run_milli else []),
            "",
        ]
    return "\n".join(lines)


def _channel_text(channel: Channel) -> str:
    return f"{{ setup = {channel.setup}, byte_milli = {channel.byte_milli}, line_milli = {channel.line_milli} }}"
