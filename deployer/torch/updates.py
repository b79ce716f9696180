"""The first updates of a run beside `torch.optim` on the module itself, both in float64."""

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deployer.core.errors import CaptureMismatch
from deployer.core.ir import Program
from deployer.core.operator import Array
from deployer.core.traits.training import Optimizer
from deployer.fitting.data.sources import Feed
from deployer.frontend.graph_inputs import BUFFER_SUFFIX
from deployer.torch.check import BOUND as STEP_BOUND
from deployer.torch.check import HINT, NOISE
from deployer.torch.eager import DoubleModule, doubled
from deployer.torch.evaluator import Evaluator
from deployer.torch.objectives import Objective
from deployer.torch.rules.optimizer_state import STEP, Kept, begun_with
from deployer.torch.step import CapturedStep
from deployer.torch.tracing.module_state import attributes_kept, held_by, random_state_kept
from deployer.training.groups import GroupRule
from deployer.training.problem import Problem
from deployer.training.settings import PAIRS
from deployer.verify.reference import Memory, run_graph

UPDATES = 2
"""Number of updates that are compared: the second reads what the first kept, such as a momentum."""
BOUND = 1e-6
"""Largest allowed difference of weights, of how far they moved: rates and settings are float32 in a program."""
DECIDED = 1e-10
"""The same, of their magnitude: where they hardly moved, the rounding of float64 counts."""
REACH = 4
"""Factor by which a weight may be off further than gradients take it that are off by what a step's check allows.

Adam's step is about its rate however small a gradient is: where that is rounding, so is the direction of the step.
"""


@dataclass(frozen=True, eq=False)
class FirstUpdates:
    """Compares the first updates of a run, from the inputs that the run is about to read."""

    module: nn.Module
    objective: Objective
    step: CapturedStep
    seed: int
    begun: Kept = field(default_factory=dict)

    def check(self, problem: Problem, program: Program, feed: Feed, rates: Array) -> None:
        """Raise CaptureMismatch where weights after the first updates are not those of `torch.optim`."""
        count = min(UPDATES, feed.updates.count)
        passes = [p for p in range(feed.updates.passes) if p < feed.updates.window(0).stop * count]
        rows = feed.passes(0, len(passes))
        listed = [list(map(float, row)) for row in rates[:count]] if rates.size else [[]] * count
        ours = self._ours(problem, program, feed, rows, listed)
        theirs, slopes = self._theirs(problem, feed, rows, listed)
        shifted = [self._stepped(problem, slopes, listed, signs) for signs in itertools.product((1, -1), repeat=count)]
        for name, new in theirs.items():
            before = self.step.constants[name]
            moved = float(np.abs(new - before).max(initial=0))
            allowed = BOUND * moved + DECIDED * float(np.abs(new).max(initial=0))
            allowed = allowed + REACH * np.max([np.abs(other[name] - new) for other in shifted], axis=0)
            off = np.abs(ours[name].reshape(new.shape) - new)
            if not (off <= allowed).all():
                at = np.unravel_index(int((off / allowed).argmax()), off.shape)
                facts = [("at", str([int(i) for i in at])), ("here", f"{float(ours[name].reshape(new.shape)[at]):.9g}")]
                facts += [("torch.optim", f"{float(new[at]):.9g}"), ("moved", f"{moved:.3g} at most")]
                cause = f"parameter {name!r} after the first {count} updates is not what torch.optim makes of it"
                raise CaptureMismatch(cause, facts, HINT)

    def _ours(
        self, problem: Problem, program: Program, feed: Feed, rows: Sequence[Any], rates: Sequence[Any]
    ) -> dict[str, Array]:
        """Weights by the captured step's gradients and the program's optimizer graph."""
        graph, evaluator = problem.graph, Evaluator(self.step)
        memory = Memory(program, np.float64)
        values = {old: np.asarray(self.step.constants[old]) for old in graph.original.values()}
        memory.update({new: values[old] for new, old in graph.original.items()})
        memory.update({n: np.zeros(program.tensors[n].type.shape) for n in program.accumulators})
        memory.update(begun_with(problem, program, self.begun))
        for index, row in enumerate(rows):
            data = {n: np.asarray(x) for n, x in zip(self.step.data, row, strict=True)}
            given = {old: np.asarray(memory[new]).reshape(values[old].shape) for new, old in graph.original.items()}
            found = evaluator.run(data, index + 1, given)
            begins = index == feed.updates.window(index).start
            for new, old in graph.trained.items():
                name = new + BUFFER_SUFFIX
                total = found.gradients[old] if begins else memory[name] + found.gradients[old]
                memory[name] = np.asarray(total)
            memory.update({new: found.states[old] for new, old in graph.states.items()})
            if feed.updates.follows(index):
                update = sum(feed.updates.follows(i) for i in range(index))
                run_graph(program.graphs[1], memory, rates=rates[update])
        return {old: np.asarray(memory[new]) for new, old in graph.trained.items()}

    def _theirs(
        self, problem: Problem, feed: Feed, rows: Sequence[Any], rates: Sequence[Any]
    ) -> tuple[dict[str, Array], list[dict[str, Tensor]]]:
        """Weights by `.backward()` and `torch.optim`, and the gradients of each update.

        The module has its own tensors back in the end.
        """
        module, held, slopes = self.module, held_by(self.module), []
        draws = DoubleModule(self.seed, 0, self.step.drops)
        contexts = (attributes_kept(module), random_state_kept(), doubled(module, held), torch.enable_grad())
        with contextlib.ExitStack() as stack:
            stack.callback(draws.forget)
            for context in contexts:
                stack.enter_context(context)
            parameters = {old: held.parameter(old) for old in problem.graph.trained.values()}
            optimizer = torch_optimizer(parameters, _rules(problem), self.begun)
            optimizer.zero_grad()
            for index, row in enumerate(rows):
                draws.passes, draws.streams = index + 1, 0
                self._backward(draws, row)
                if feed.updates.follows(index):
                    slopes.append({n: p.grad.clone() for n, p in parameters.items() if p.grad is not None})
                    _update(problem, optimizer, parameters, rates[len(slopes) - 1])
            return {name: p.detach().numpy().copy() for name, p in parameters.items()}, slopes

    def _stepped(
        self, problem: Problem, slopes: Sequence[dict[str, Tensor]], rates: Sequence[Any], signs: Sequence[int]
    ) -> dict[str, Array]:
        """Weights by gradients that are off by what `check_step` allows, in a direction that is drawn.

        `signs` turn it around in some updates: what two of them are off by may cancel out in one weight and add up in
        another.
        """
        names = problem.graph.trained.values()
        parameters = {n: nn.Parameter(torch.from_numpy(np.array(self.step.constants[n]))) for n in names}
        optimizer = torch_optimizer(parameters, _rules(problem), self.begun)
        for index, gradients in enumerate(slopes):
            largest = max((float(g.abs().max()) for g in gradients.values() if g.numel()), default=0.0)
            draw = np.random.default_rng(0)
            for name, grad in gradients.items():
                off = signs[index] * (STEP_BOUND * float(grad.abs().max()) + NOISE * largest)
                parameters[name].grad = grad + off * torch.from_numpy(draw.choice([-1.0, 1.0], tuple(grad.shape)))
            _update(problem, optimizer, parameters, rates[index])
        return {name: p.detach().numpy() for name, p in parameters.items()}

    def _backward(self, draws: DoubleModule, row: Sequence[Any]) -> None:
        tensors = [torch.from_numpy(np.array(x)) for x in row]
        first = tensors.pop().double().reshape(()) if self.step.share else torch.ones((), dtype=torch.float64)
        inputs = [_like(t, n, self.objective) for t, n in zip(tensors, self.objective.data, strict=True)]
        with draws:
            self.objective(self.module, *inputs).reshape(()).backward(first)
        for parameter in self.module.parameters():
            if parameter.grad is not None and parameter.grad.is_sparse:
                parameter.grad = parameter.grad.to_dense()


def _rules(problem: Problem) -> dict[str, GroupRule]:
    """The rule of each parameter by the module's name."""
    return {old: problem.rules[new] for new, old in problem.graph.trained.items()}


def _update(problem: Problem, optimizer: Any, parameters: Mapping[str, nn.Parameter], rates: Sequence[float]) -> None:
    """An update at these rates, one for each rate that a parameter has, or at constant ones; no gradients are left."""
    if rates:
        bases = list(dict.fromkeys(float(np.float32(rule.rate)) for rule in problem.rules.values()))
        known = dict(zip(bases, rates, strict=True))
        for group in optimizer.param_groups:
            group["lr"] = known[float(np.float32(group["base"]))]
    _limit(problem, list(parameters.values()))
    optimizer.step()
    optimizer.zero_grad()


def _like(tensor: Tensor, name: str, objective: Objective) -> Tensor:
    """A tensor of a pass in the type that the module gets."""
    return tensor.double() if tensor.is_floating_point() else tensor.long()


def torch_optimizer(
    parameters: Mapping[str, nn.Parameter], rules: Mapping[str, GroupRule], begun: Kept | None = None
) -> Any:
    """The optimizer of PyTorch that the rules of all parameters name, with a group for each, and what it has `begun`.

    What it keeps is in the type of the parameters.
    """
    choices = {found.choice for rule in rules.values() if (found := rule.operator.role(Optimizer))}
    [choice] = choices
    kinds = {name.lower(): kind for name, kind in vars(torch.optim).items() if isinstance(kind, type)}
    groups = [{"params": [p], "base": rules[n].rate, **options_of(rules[n])} for n, p in parameters.items()]
    optimizer = kinds[choice](groups)
    for name, parameter in parameters.items():
        state = (begun or {}).get(name, {})
        own = {
            k: x.detach().clone() if k == STEP else x.detach().to(parameter.dtype, copy=True)
            for k, x in state.items()
            if isinstance(x, Tensor)
        }
        if own:
            optimizer.state[parameter] = {**state, **own}
    return optimizer


def options_of(rule: GroupRule) -> dict[str, Any]:
    """The rate and the settings of a rule, in the words of `torch.optim`, as the float32 numbers of a program.

    In float32, 1 - 0.99 is off by a millionth, and the gradient after a large step by several.
    """
    declared = rule.operator.role(Optimizer)
    assert declared is not None
    given: dict[str, Any] = {"lr": float(np.float32(rule.rate))}
    for setting in declared.settings:
        value = rule.attributes.get(setting.place, setting.default)
        if value is not None:
            given[setting.name.replace("-", "_")] = bool(value) if setting.switch else float(np.float32(value))
    for name, both in PAIRS.items():
        if both[0] in given:
            given[name] = tuple(given.pop(each) for each in both)
    return given


def _limit(problem: Problem, parameters: Sequence[nn.Parameter]) -> None:
    """Bound gradients as the run does: elements first."""
    limits = problem.limits
    if limits.value is not None:
        torch.nn.utils.clip_grad_value_(parameters, limits.value)
    if limits.norm is not None:
        torch.nn.utils.clip_grad_norm_(parameters, limits.norm)
