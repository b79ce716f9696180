"""A training step for batches of one size: its problem, the library that runs it, and pointers that a call fills."""

import ctypes
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from deployer.core.errors import Warn
from deployer.core.ir import Program
from deployer.core.operator import Array
from deployer.core.plan import Options
from deployer.core.target import native
from deployer.fitting.data.sources import Feed
from deployer.fitting.in_process import DataInput, StepLibrary
from deployer.fitting.task import Task
from deployer.frontend.data_numbers import check_classes
from deployer.lr_schedules.run_time import number_rules, update_numbers, with_run_time_rates
from deployer.lr_schedules.windows import ACCUMULATIONS, Updates
from deployer.torch.objective_step import CaptureOptions, ObjectiveStep
from deployer.torch.rules.optimizer_state import begun_with
from deployer.torch.rules.update_rule import UpdateRule
from deployer.torch.samples.conversion import Conversion
from deployer.torch.updates import UPDATES, FirstUpdates
from deployer.training.order import Order, Samples
from deployer.training.problem import Problem
from deployer.verify.checked import state_homes


@dataclass(frozen=True, eq=False)
class StepOptions:
    """Choices of a compiled step besides its update: how it is captured and planned, and what becomes of new shapes.

    An update follows every `accumulate` passes. With `recompile` a batch of another size is compiled anew.
    """

    capture: CaptureOptions
    accumulate: int
    cores: int | None
    recompile: bool
    warn: Warn
    canonical_batch: bool = False


class StepVariant:
    """The step for batches of one size: the captured problem, its library, and pointers that a call fills."""

    def __init__(self, captured: ObjectiveStep, rule: UpdateRule, options: StepOptions) -> None:
        self.captured = captured
        with tempfile.TemporaryDirectory(prefix="deployer-") as scratch:
            place = Path(scratch)
            self.problem = posed_problem(captured, rule, options, place)
            paths = place / "train.onnx", place / "optimizer.onnx"
            self.problem.write(*paths)
            program, self.bases = with_run_time_rates(self.problem.program(*paths))
            if options.capture.check:
                _check_updates(captured, self.problem, program, rule, rule.by_base(self.bases), options.accumulate)
            planned = Options(native().name, cores=options.cores, accumulate=options.accumulate)
            planned = replace(planned, canonical_batch=options.canonical_batch)
            self.library = StepLibrary(program, planned, place / "code")
        self.library.load({**self.problem.graph.weights, **begun_with(self.problem, program, rule.begun)})
        self.inputs = self.library.inputs
        self.shapes = [torch.Size(x.shape) for x in self._given]
        self.dtypes = [getattr(torch, x.dtype) for x in self._given]
        self.kinds = [np.dtype(x.dtype) for x in self._given]
        self.watched = any(x.watched for x in self._given)
        self.pointers = (ctypes.c_void_p * len(self.inputs))()
        self.share = np.full((), 1 / options.accumulate, np.float32)
        if captured.step.share:
            self.pointers[len(self.inputs) - 1] = self.share.ctypes.data
        self.addresses = ctypes.addressof(self.pointers), ctypes.addressof(self.library.loss)
        found = number_rules(program, rule.by_base(self.bases))
        self.rules = [each for each in found if each is not None]
        self.has_rules = len(self.rules) == len(found)
        plan = self.library.plan
        self.state = {home.storage: self.library.tensors[home.storage] for home in state_homes(plan)}

    def numbers(self, rates: Sequence[float]) -> Sequence[float] | Array:
        """The numbers of an update at these rates, in the order of the program's groups, rounded to float32 before."""
        narrow = [float(np.float32(rate)) for rate in rates]
        if self.has_rules:
            return [rule.of(narrow) for rule in self.rules]
        return update_numbers(self.library.program, narrow)

    @property
    def _given(self) -> Sequence[DataInput]:
        """The data inputs that a call gives."""
        return self.inputs[:-1] if self.captured.step.share else self.inputs

    @property
    def size(self) -> int:
        """Samples of a batch."""
        return int(self.shapes[0][0])

    def arrays(self, data: Sequence[object], conversion: Conversion) -> list[Array]:
        """The data of a call as arrays, converted where that is needed; their shapes are not looked at."""
        return [conversion.array(x, wanted) for x, wanted in zip(data, self._given, strict=True)]

    def point(self, arrays: Sequence[Array]) -> None:
        """Let the next pass read these arrays."""
        for index, array in enumerate(arrays):
            self.pointers[index] = array.ctypes.data

    def check(self, arrays: Sequence[Array]) -> None:
        """Raise DatasetMismatch for a number that chooses among fewer, or beyond the bounds of an input."""
        names = [x.name for x in self.inputs]
        check_classes(self.library.program, dict(zip(names, arrays, strict=False)), "the batch:", from_front=True)


def posed_problem(captured: ObjectiveStep, rule: UpdateRule, options: StepOptions, place: Path) -> Problem:
    """The training problem of the captured step."""
    path = captured.save(place / "module.onnx")
    task = Task(
        loss=captured.loss,
        optimizer=rule.choice,
        lr=rule.lr,
        settings=rule.settings,
        groups=rule.groups,
        limits=rule.limits,
        free_rates=rule.any_rate,
        accumulate=ACCUMULATIONS[options.capture.mean],
    )
    return task.problem(path, options.capture.seed, options.warn)


def _check_updates(
    captured: ObjectiveStep,
    problem: Problem,
    program: Program,
    rule: UpdateRule,
    rates: Sequence[float],
    accumulate: int,
) -> None:
    """Compare the first updates over the batch with those of `torch.optim`; raises what `FirstUpdates.check` does."""
    types = problem.graph.sampled
    arrays = {n: x.numpy() for n, x in zip(types, captured.batch.values(), strict=True)}
    size = len(next(iter(arrays.values())))
    samples = Samples(types, arrays, size)
    updates = Updates(UPDATES * accumulate, accumulate)
    share = next((problem.graph.data[name] for name in problem.graph.share), None)
    feed = Feed(samples, Order(size, size, shuffled=False), updates, program, share)
    rows = np.array([rates] * UPDATES, np.float32)
    first = FirstUpdates(captured.module, captured.objective, captured.step, captured.seed, rule.begun)
    first.check(problem, program, feed, rows)
