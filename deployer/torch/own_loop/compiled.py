"""A training step for a loop in Python: each call makes a pass, and its update, by generated C in this process."""

import hashlib
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deployer.core.errors import (
    DatasetMismatch,
    DeployerWarning,
    FileProblem,
    InternalError,
    OptionProblem,
    RunFailed,
    Warn,
    python_warning,
)
from deployer.core.operator import Array, operator_of
from deployer.core.traits.training import Optimizer
from deployer.firmware.common import LibraryForm
from deployer.fitting.argument_names import named_parameters
from deployer.fitting.safetensors import read_safetensors, safetensors_bytes
from deployer.fitting.verdicts import SampledPasses
from deployer.lr_schedules.lr_schedule import check_rate
from deployer.lr_schedules.windows import Updates
from deployer.running.output import write_file
from deployer.sizing.library_folder import Library
from deployer.torch.boards.module_library import write_step_library
from deployer.torch.boards.packaging import LibraryOptions
from deployer.torch.data import read_columns
from deployer.torch.loss_choice import LossChoice
from deployer.torch.objective_step import (
    capture_objective,
    named_objective,
    typed,
)
from deployer.torch.objectives import Objective
from deployer.torch.own_loop.evaluation import ModuleOutputs, outputs_of
from deployer.torch.own_loop.live_module import LiveModule
from deployer.torch.own_loop.step_loss import StepLoss
from deployer.torch.own_loop.step_variant import StepOptions, StepVariant
from deployer.torch.rules.update_rule import UpdateRule
from deployer.torch.samples.conversion import Conversion, flat, numbers_of, shape_text
from deployer.torch.tracing.module_state import held_by

FORMAT = "deployer step 1"
OPTIMIZER = "optimizer/"
"""Prefix of the names of an optimizer's tensors in a state."""
PASSES = "passes"
LEAVE_OUT = "leave it out: step(x, y) makes the pass and its update"
ELSEWHERE = {
    "zero_grad": LEAVE_OUT,
    "backward": LEAVE_OUT,
    "step": LEAVE_OUT,
    "train": "leave it out: step(x, y) is in training mode, step.predict(x) in evaluation mode",
    "eval": "step.predict(x), which is in evaluation mode",
    "parameters": "step.module.parameters(), which each call trains",
    "model": "step.module, which each call trains",
    "loss": "step(x, y), which returns it",
    "save_checkpoint": "step.save(path)",
    "export_onnx": "deployer.torch.capture(step.module, x).save(path)",
}
"""What steps, modules and optimizers elsewhere have, and what does the same here."""


class CompiledStep:
    """One training step of a module: `step(x, y)` makes a pass, and its update where one is due; the loss as a float.

    The module's weights and buffers are those of the step: what either writes, the other has. Made by `compile_step`.
    """

    def __init__(self, module: nn.Module, loss: LossChoice, rule: UpdateRule, options: StepOptions) -> None:
        self.module, self._loss, self._rule, self._options = module, loss, rule, options
        self._variants: dict[tuple[torch.Size, ...], StepVariant] = {}
        self._variant: StepVariant | None = None
        self._objective: Objective | None = None
        self._conversion = Conversion(options.warn)
        self._lock = threading.Lock()
        self._rates: tuple[float, ...] = ()
        self._wanted: tuple[float, ...] = rule.rates
        self._accumulate = options.accumulate
        self._accumulated = 0
        self._outputs: ModuleOutputs | None = None
        self._last: tuple[Any, ...] = ()
        self._live: LiveModule | None = None
        self.passes = 0
        if rule.live is not None:  # so that its schedulers take the updates made here for its own
            rule.live._opt_called = True

    def __call__(self, *data: Any, **named: Any) -> StepLoss:
        """Make a pass over a batch: the module's inputs and then the target, or all by name; its loss."""
        variant, live = self._variant, self._rule.live
        with self._lock:
            if variant is None or named or len(data) != len(variant.shapes):
                variant, data = self._arranged(data, named)
            module = self._synced()
            pointers, kinds = variant.pointers, variant.kinds
            for i, (x, shape, dtype) in enumerate(zip(data, variant.shapes, variant.dtypes, strict=True)):
                if type(x) is Tensor and x.dtype is dtype and x.shape == shape and x.is_cpu and x.is_contiguous():
                    pointers[i] = x.data_ptr()
                elif type(x) is np.ndarray and x.dtype == kinds[i] and x.shape == shape and x.flags.c_contiguous:
                    pointers[i] = x.ctypes.data
                else:
                    variant, data = self._converted(variant, data)
                    break
            if variant.watched:
                variant.check(variant.arrays(data, self._conversion))
            rates = self._wanted if live is None else tuple([group["lr"] for group in live.param_groups])
            if rates != self._rates:
                self._set_rates(variant, rates)
            accumulated, library = self._accumulated, variant.library
            after = (accumulated + 1) % self._accumulate
            if library.run(variant.addresses[0], accumulated == 0, after == 0, variant.addresses[1]):
                variant.check(variant.arrays(data, self._conversion))
                raise InternalError("the library refuses a number of the batch that its program takes")
            self._accumulated, self._last = after, data
            self.passes += 1
            module.count()
            return StepLoss(library.loss.value)

    def __getattr__(self, name: str) -> Any:
        """AttributeError for what steps, modules and optimizers elsewhere have, with what does the same here."""
        hint = f"; try {ELSEWHERE[name]}" if name in ELSEWHERE else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def compile(self, example: Any) -> None:
        """Compile the step for a batch, (x, y) or a mapping by name, without a pass over it."""
        with self._lock:
            self._arranged(*(((), example) if isinstance(example, Mapping) else (tuple(example), {})))

    @property
    def lr(self) -> float:
        """The learning rate of the next update, or of the first of several groups of parameters."""
        return self._rule.rates[0] if self._rule.live is not None else self._wanted[0]

    @lr.setter
    def lr(self, rate: float) -> None:
        """Set it; OptionProblem for one that is out of range, and where an optimizer of PyTorch has the rates."""
        if self._rule.live is not None:
            raise OptionProblem("the rates are those of the optimizer", hint="set group['lr'] in its param_groups")
        check_rate(rate, free=self._rule.any_rate, zero=True)
        self._wanted = (float(rate),)

    @property
    def weights(self) -> dict[str, Tensor]:
        """The present parameters by the module's names, as copies."""
        return self._named(self._built().problem.graph.trained)

    @property
    def buffers(self) -> dict[str, Tensor]:
        """The present buffers that forward writes, by the module's names, as copies; counters among them."""
        variant, module = self._built(), self._synced()
        counts = {name: tensor.clone() for name, tensor in module.counters.items()}
        return self._named(variant.problem.graph.states) | counts

    @property
    def optimizer_state(self) -> dict[str, dict[str, Tensor]]:
        """The optimizer's tensors of each parameter, by the module's names and by those of the states, as copies."""
        variant = self._built()
        found: dict[str, dict[str, Tensor]] = {}
        for node in variant.library.program.graphs[-1].nodes:
            declared = operator_of(node).role(Optimizer)
            for place, state in sorted(declared.states.items()) if declared else ():
                name = variant.problem.graph.trained[node.inputs[declared.weight if declared else 0]]
                content = variant.state[variant.library.program.storage(node.inputs[place])]
                found.setdefault(name, {})[state.suffix.strip("_")] = torch.from_numpy(content.copy())
        return found

    def state_dict(self) -> dict[str, Tensor]:
        """All that the step needs to go on with the same bits: parameters, buffers, the optimizer's tensors, passes."""
        names = self._state_names(self._built())
        state = {names[storage]: torch.from_numpy(a.copy()) for storage, a in self._built().state.items()}
        return {**state, PASSES: torch.tensor(self.passes)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of `state_dict`; OptionProblem, and nothing changed, where it is another step's."""
        variant = self._built()
        names = self._state_names(variant)
        arrays = {name: np.asarray(value) for name, value in state.items()}
        kinds = {names[storage]: (a.shape, a.dtype) for storage, a in variant.state.items()}
        theirs = {name: (a.shape, a.dtype) for name, a in arrays.items() if name != PASSES}
        if theirs != kinds or PASSES not in arrays:
            odd = sorted(n for n in {*theirs, *kinds} if theirs.get(n) != kinds.get(n))
            facts = [("tensors that differ", ", ".join(odd[:4]) or PASSES)]
            raise OptionProblem("the state belongs to another step", facts, "the state of a step of this module")
        with self._lock:
            for storage, place in variant.state.items():
                place[...] = arrays[names[storage]]
            self.passes = int(arrays[PASSES])
            self._synced().count_from_begin(self.passes)
            self._accumulated = self.passes % self._accumulate

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Set parameters and buffers by the module's names; the others and the optimizer's tensors stay.

        OptionProblem, and nothing changed, for a name or a shape that the step has not.
        """
        variant = self._built()
        places = {
            old: variant.state[new] for new, old in variant.problem.graph.original.items() if new in variant.state
        }
        counts = variant.captured.step.counts
        arrays = {n: to_numpy(x) for n, x in weights.items() if n not in counts}
        for name, array in arrays.items():
            if name not in places or places[name].size != array.size:
                found = f"of shape {list(array.shape)}"
                facts = [("found", f"{name} {found}"), ("parameters", ", ".join(places))]
                raise OptionProblem(
                    f"the step trains no {name!r} {found}", facts, "the module's parameters and buffers"
                )
        with self._lock:
            for name, array in arrays.items():
                places[name][...] = array.reshape(places[name].shape)

    def save(self, path: Path | str) -> Path:
        """Write the state to a safetensors file with a digest; an older file stays until the new one is whole."""
        arrays = {name: np.asarray(x.numpy()) for name, x in self.state_dict().items()}
        place = Path(path)
        write_file(place, safetensors_bytes(arrays, {"format": FORMAT, "digest": _digest(arrays)}))
        return place

    def load(self, path: Path | str) -> None:
        """Go on from a file of `save`; FileProblem where it is damaged or another file."""
        arrays, metadata = read_safetensors(Path(path))
        if metadata.get("format") != FORMAT or metadata.get("digest") != _digest(arrays):
            kind = "is damaged" if metadata.get("format") == FORMAT else "is not the state of a step"
            raise FileProblem(f"{path} {kind}", hint="a file that `step.save` wrote")
        self.load_state_dict(arrays)

    def to_module(self, module: nn.Module | None = None) -> nn.Module:
        """Give the module, by default the one that was compiled, the present weights and buffers; the module."""
        target = self.module if module is None else module
        held, given = held_by(target), self.weights | self.buffers
        missing = sorted(given.keys() - held.parameters.keys() - held.states.keys())
        if missing:
            raise OptionProblem(
                f"the module has no parameter or buffer {missing[0]!r}", hint="a module of the same kind"
            )
        held.write(given)
        return target

    def evaluate(self, *data: Any, **named: Any) -> Tensor:
        """The module's output in evaluation mode with the present weights, for any number of samples."""
        variant = self._built()
        if self._outputs is None:
            self._outputs = outputs_of(variant.captured, self._conversion, self._options.cores)
        graph = variant.problem.graph
        with self._lock:
            weights = {old: variant.library.tensors[new] for new, old in graph.original.items()}
            return self._outputs.of(data, named, weights)

    predict = evaluate

    @named_parameters
    def package(
        self,
        folder: Path | str,
        *,
        name: str = "",
        optimizer_state: bool = True,
        predict_batch: int = 1,
        core: str = "",
        budgets: Mapping[str, int] | None = None,
        compiled: bool = True,
        force: bool = False,
        inputs: str = "",
        predict_after_update: bool = False,
        python: bool = False,
        warn: Warn = python_warning,
    ) -> Library:
        """Write a library of C that goes on from the present state, to a folder; the arguments of `Trained.package`.

        Its passes are of the batch size that the step was compiled for, and its rates those that the step began with.
        """
        variant, title = self._built(), name or Path(folder).name
        options = LibraryOptions(
            title, "", optimizer_state, predict_batch, core, budgets, compiled, force, self._options.canonical_batch,
            form=LibraryForm(inputs, predict_after_update),
            python=python,
        )  # fmt: skip
        return write_step_library(
            variant.captured, variant.problem, variant.state, self._accumulate, Path(folder), options, warn
        )

    def check(self, *data: Any, **named: Any) -> str:
        """Repeat a pass, by default over the last batch, from the present state in float64, and compare everything.

        The state is as before. A line about the largest difference; RunFailed where one is beyond its bound.
        """
        with self._lock:
            if data or named or not self._last:
                variant, given = self._arranged(data, named)
            else:
                variant, given = self._built(), self._last
            variant, given = self._converted(variant, given)
            return self._checked(variant, given)

    def _checked(self, variant: StepVariant, data: Sequence[Any]) -> str:
        arrays = variant.arrays(data, self._conversion)
        before = {name: place.copy() for name, place in variant.state.items()}
        rates = self._rule.rates if self._rule.live is not None else self._wanted
        self._set_rates(variant, rates)
        is_due = self._accumulated + 1 == self._accumulate
        try:
            variant.point(arrays)
            variant.check(arrays)
            variant.library.run(variant.addresses[0], self._accumulated == 0, is_due, variant.addresses[1])
            after = {name: place.copy() for name, place in variant.state.items()}
        finally:
            for name, place in variant.state.items():
                place[...] = before[name]
        sample = [np.asarray(a, np.int32 if a.dtype == np.int64 else a.dtype) for a in arrays]
        sample += [variant.share] * bool(variant.captured.step.share)
        row = np.array([self._rule.by_base(variant.bases, rates)], np.float32)
        judge = SampledPasses(variant.library.program, Updates(self._accumulated + 1, self._accumulate), row)
        judge.check(self._accumulated, before, after, variant.library.loss.value, sample)
        if judge.faults:
            facts = [("found", "\n".join(judge.faults))]
            raise RunFailed("a pass from the present state is not what float64 makes of it", facts)
        return judge.text

    def _set_rates(self, variant: StepVariant, rates: tuple[float, ...]) -> None:
        self._rule.check_unchanged()
        for rate in rates:
            check_rate(float(rate), free=self._rule.any_rate, zero=True)
        variant.library.numbers[...] = variant.numbers(self._rule.by_base(variant.bases, rates))
        self._rates = tuple(map(float, rates))

    def _built(self) -> StepVariant:
        if self._variant is None:
            hint = "a first call, or compile_step(..., example=(x, y))"
            raise OptionProblem("the step is not compiled yet", hint=hint)
        self._synced()
        return self._variant

    def _synced(self) -> LiveModule:
        """The module, after what it has elsewhere by now was read."""
        assert self._live is not None, "a step that is compiled has it"
        if not self._live.is_current:
            self._live.take(self)
        self._live.check_constants()
        return self._live

    def _named(self, names: Mapping[str, str]) -> dict[str, Tensor]:
        variant = self._built()
        shapes = variant.captured.step.constants
        found = {old: variant.library.tensors[new].copy() for new, old in names.items()}
        return {old: torch.from_numpy(array.reshape(np.shape(shapes[old]))) for old, array in found.items()}

    def _state_names(self, variant: StepVariant) -> dict[str, str]:
        original = variant.problem.graph.original
        return {storage: original.get(storage, OPTIMIZER + storage) for storage in variant.state}

    def _arranged(self, data: Sequence[Any], named: Mapping[str, Any]) -> tuple[StepVariant, tuple[Any, ...]]:
        """The data of a call in order, and the step for them, which the first call compiles."""
        if len(data) == 1 and not named and isinstance(data[0], list | tuple) and self._is_batch(flat(data[0])):
            data = data[0]
        data = flat(data)
        if not named and isinstance(data, Mapping):
            named, data = data, ()
        elif len(data) == 1 and not named and isinstance(data[0], Mapping):
            named, data = data[0], ()
        if data and named:
            raise OptionProblem("a batch is given in part by name", hint="all by name, or all in order")
        if self._objective is None:
            return self._first(data, named)
        names = self._objective.data
        if "target" in named and "target" not in names and self._objective.targets:
            named = {self._objective.targets[0] if n == "target" else n: x for n, x in named.items()}
        if named and named.keys() != set(names):
            facts = [("expected", ", ".join(names)), ("found", ", ".join(map(str, named)))]
            raise DatasetMismatch("the batch has other names than the step takes", facts, "these names")
        given = tuple(named[n] for n in names) if named else tuple(data)
        if len(given) != len(names):
            facts = [("expected", ", ".join(names)), ("found", f"{len(given)} arrays")]
            raise DatasetMismatch("the batch has another number of arrays than the step takes", facts, "one for each")
        return self._built(), given

    def _is_batch(self, value: Sequence[Any]) -> bool:
        """Whether a list or tuple is a batch of several arrays, as a DataLoader gives it, and not one of numbers."""
        count = len(self._objective.data) if self._objective else 2
        return isinstance(value, Mapping) or (len(value) >= min(count, 2) and all(hasattr(x, "shape") for x in value))

    def _first(self, data: Sequence[Any], named: Mapping[str, Any]) -> tuple[StepVariant, tuple[Any, ...]]:
        """Compile the step for the first batch."""
        raw: Any = dict(named) if named else tuple(map(to_numpy, data))
        loss, options = self._loss, self._options
        columns = read_columns(raw, self.module, options.warn, targets=loss.targets, loss=loss.name)
        self._objective = named_objective(self.module, loss, columns)
        arrays = typed(self._objective, columns.arrays)
        counts = [len(x) for x in arrays]
        if len(set(counts)) > 1 or not counts[0]:
            raise DatasetMismatch(f"the batch has different numbers of samples: {counts}", hint="as many of each")
        self._variant = self._compiled(arrays)
        return self._variant, tuple(arrays)

    def _compiled(self, arrays: Sequence[Array]) -> StepVariant:
        objective = self._objective
        assert objective is not None, "the first batch decides the objective"
        batch = {n: np.asarray(x) for n, x in zip(objective.data, arrays, strict=True)}
        captured = capture_objective(self.module, objective, batch, True, self._options.capture, self._options.warn)
        variant = StepVariant(captured, self._rule, self._options)
        if self._live is None:
            self._live = LiveModule(self.module, variant.problem.graph.original.values(), captured.step)
            self._bind(variant)
            if not self._live.is_bound:
                facts = [("of another type or device", ", ".join(self._live.odd[:4]))]
                hint = "step.to_module(), which gives it the trained weights"
                self._options.warn(DeployerWarning("the module is not trained with the step", facts, hint))
        self._variants[tuple(variant.shapes)] = variant
        self._rates = ()
        return variant

    def _converted(self, variant: StepVariant, data: Sequence[Any]) -> tuple[StepVariant, tuple[Any, ...]]:
        """The data as arrays that the next pass reads, and the step for their shapes."""
        arrays = variant.arrays(data, self._conversion)
        shapes = tuple(torch.Size(x.shape) for x in arrays)
        if shapes != tuple(variant.shapes):
            variant = self._other(variant, shapes, arrays)
        variant.point(arrays)
        return variant, tuple(arrays)

    def _other(self, variant: StepVariant, shapes: tuple[torch.Size, ...], arrays: Sequence[Array]) -> StepVariant:
        """The step for another batch size, with the present state; DatasetMismatch for anything else."""
        sizes = {shape[0] if shape else 0 for shape in shapes}
        alike = all(a[1:] == b[1:] for a, b in zip(shapes, variant.shapes, strict=True))
        facts = [("compiled for", shape_text(variant.shapes)), ("found", shape_text(shapes))]
        if not alike or len(sizes) > 1 or 0 in sizes:
            raise DatasetMismatch("the batch has other shapes than the step was compiled for", facts, "these shapes")
        if not self._options.recompile:
            cause = f"a batch of {sizes.pop()} samples, and the step was compiled for {variant.size}"
            hint = "DataLoader(..., drop_last=True), or compile_step(..., recompile=True)"
            raise DatasetMismatch(cause, facts, hint)
        other = self._variants.get(shapes) or self._compiled(arrays)
        for storage, place in other.state.items():
            place[...] = variant.state[storage]
        self._bind(other)
        self._variant, self._outputs, self._rates = other, None, ()
        return other

    def _bind(self, variant: StepVariant) -> None:
        """Let the module's tensors lie in the memory of a variant."""
        assert self._live is not None, "the first variant makes it"
        original, tensors = variant.problem.graph.original, variant.library.tensors
        self._live.bind({old: tensors[new] for new, old in original.items()}, self)


def to_numpy(value: Any) -> Array:
    """The numbers of a tensor, an array or a list."""
    return numbers_of(value, "the batch")[0]


def _digest(arrays: Mapping[str, Array]) -> str:
    total = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        total.update(f"{name} {array.dtype} {array.shape}\n".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()
