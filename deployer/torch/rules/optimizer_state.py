"""The state of an optimizer of `torch.optim`: taken over when a run begins, written when it ends."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from deployer.core.errors import InternalError, OptionProblem
from deployer.core.ir import Program
from deployer.core.operator import Array, operator_of
from deployer.core.traits.training import Optimizer
from deployer.training.problem import Problem

Kept: TypeAlias = Mapping[str, Mapping[str, Any]]
"""What an optimizer keeps, by the module's names of parameters and PyTorch's names of states."""
STEP = "step"
"""PyTorch's name of the number of updates."""


@dataclass(frozen=True)
class StatePlace:
    """A state of a parameter: the module's name of that, PyTorch's of the state, and its storage in the program."""

    parameter: str
    key: str
    storage: str


def state_places(problem: Problem, program: Program) -> Iterator[StatePlace]:
    """The states of all parameters of a program, and the number of updates where an optimizer reads it."""
    for node in program.graphs[-1].nodes:
        declared = operator_of(node).role(Optimizer)
        if declared is None:
            continue
        name = problem.graph.trained[node.inputs[declared.weight]]
        for place, state in declared.states.items():
            yield StatePlace(name, state.elsewhere, program.storage(node.inputs[place]))
        if declared.count is not None:
            yield StatePlace(name, STEP, program.storage(node.inputs[declared.count]))


def kept_by(module: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, dict[str, Any]]:
    """The state that an optimizer keeps of the module's parameters; nothing where it has made no update."""
    names = {id(p): n for n, p in module.named_parameters()}
    found = {names[id(p)]: dict(state) for p, state in optimizer.state.items() if id(p) in names}
    made = {name: state for name, state in found.items() if float(state.get(STEP, 1)) > 0}
    return {n: state for n, state in made.items() if any(isinstance(x, Tensor) for x in state.values())}


def begun_with(problem: Problem, program: Program, kept: Kept) -> dict[str, Array]:
    """The content of a program's states, by storage, before the first update; none where nothing is kept.

    OptionProblem where parameters have made different numbers of updates, which a program counts once for all.
    """
    content, steps = dict[str, Array](), dict[str, int]()
    for place in state_places(problem, program) if kept else ():
        kind, value = program.tensors[place.storage].type, kept.get(place.parameter, {}).get(place.key)
        if place.key == STEP:
            steps[place.parameter] = int(value or 0)
            content[place.storage] = np.full(kind.shape, steps[place.parameter], kind.dtype)
        elif value is not None:
            content[place.storage] = value.detach().cpu().numpy().astype(kind.dtype).reshape(kind.shape)
    if len(set(steps.values())) > 1:
        facts = [("updates", ", ".join(f"{name}: {count}" for name, count in list(steps.items())[:4]))]
        cause = "the optimizer's parameters have made different numbers of updates, and one number counts for all here"
        raise OptionProblem(cause, facts, "a new optimizer")
    return content


def write_state(
    optimizer: torch.optim.Optimizer,
    module: nn.Module,
    places: Mapping[str, Mapping[str, Array]],
    kept: Kept,
    updates: int,
) -> None:
    """Give an optimizer the states that `updates` have left, as PyTorch itself would have them.

    `places` are the states by parameter and PyTorch's name, `kept` what it had before.
    """
    parameters = dict(module.named_parameters())
    groups = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    for name, arrays in places.items():
        parameter, before = parameters[name], kept.get(name, {})
        found = dict[str, Any]()
        for key, like in _usual(type(optimizer), groups[id(parameter)]).items():
            if key == STEP:
                made = int(arrays[STEP].reshape(-1)[0]) if STEP in arrays else int(before.get(STEP, 0)) + updates
                found[key] = torch.full_like(like, made) if isinstance(like, Tensor) else made
            elif key in arrays:
                state = torch.from_numpy(np.array(arrays[key])).reshape(parameter.shape)
                found[key] = state.to(parameter.device, parameter.dtype)
            elif like is None:
                found[key] = None
            else:
                raise InternalError(f"no program keeps {key!r} of torch.optim.{type(optimizer).__name__}")
        if found:
            optimizer.state[parameter] = found


def _usual(kind: type[torch.optim.Optimizer], group: Mapping[str, Any]) -> dict[str, Any]:
    """The state that an optimizer keeps of a parameter of a group after an update, with values of another one."""
    parameter = nn.Parameter(torch.zeros(1))
    parameter.grad = torch.zeros(1)
    optimizer = kind([{**group, "params": [parameter]}])
    optimizer.step()
    return dict(optimizer.state[parameter])
