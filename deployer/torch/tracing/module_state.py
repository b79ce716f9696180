"""The state of a module: parameters, buffers, plain tensors, Python attributes; swapped for a while, then restored."""

import contextlib
import copy
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deployer.core.errors import GraphProblem

OWN = frozenset(nn.Module().__dict__)
"""Attributes that every module has for itself."""
SIMPLE = (int, float, complex, bool, str, bytes, type(None))


@dataclass(frozen=True)
class StateSlot:
    """A place in a module that holds a tensor: `table` is the dictionary of `key` in it."""

    table: Any
    key: Any

    def get(self) -> Any:
        """Return the current tensor."""
        if isinstance(self.table, dict):
            return self.table.get(self.key)
        return self.table[self.key] if self.key < len(self.table) else None

    def set(self, value: Any) -> None:
        """Put another tensor there."""
        self.table[self.key] = value


@dataclass(frozen=True)
class HeldState:
    """The tensors of a module by name, each with all places that hold it: tied ones have several.

    `parameters` have the module's first name of each; `states` are buffers and plain tensor attributes.
    """

    parameters: dict[str, tuple[StateSlot, ...]]
    states: dict[str, tuple[StateSlot, ...]]
    buffers: frozenset[str]

    def parameter(self, name: str) -> nn.Parameter:
        """The module's parameter."""
        value = self.parameters[name][0].get()
        assert isinstance(value, nn.Parameter)
        return value

    def state(self, name: str) -> Tensor:
        """The buffer or plain tensor."""
        value = self.states[name][0].get()
        assert isinstance(value, Tensor)
        return value

    @property
    def trained(self) -> tuple[str, ...]:
        """The parameters that require a gradient."""
        return tuple(n for n in self.parameters if self.parameter(n).requires_grad)

    def write(self, content: Mapping[str, Any]) -> None:
        """Give tensors of these names this content, of as many elements, in place."""
        known = self.parameters | self.states
        with torch.no_grad():
            for name, value in content.items():
                tensor = known[name][0].get()
                given = value if isinstance(value, Tensor) else torch.from_numpy(np.array(value))
                tensor.copy_(given.reshape(tensor.shape))

    @contextlib.contextmanager
    def swapped(self, parameters: Mapping[str, Tensor], states: Mapping[str, Tensor]) -> Iterator[None]:
        """The module with these tensors in the places of its own; what it has afterwards is put back."""
        slots = [(slot, slot.get()) for group in (self.parameters, self.states) for n in group.values() for slot in n]
        given = {**{n: (self.parameters[n], t) for n, t in parameters.items()}}
        try:
            for places, tensor in [*given.values(), *((self.states[n], t) for n, t in states.items())]:
                for slot in places:
                    slot.set(tensor)
            yield
        finally:
            for slot, value in slots:
                slot.set(value)


def held_by(module: nn.Module) -> HeldState:
    """The tensors of a module."""
    parameters: dict[int, tuple[str, list[StateSlot]]] = {}
    states: dict[int, tuple[str, list[StateSlot]]] = {}
    buffers = set()
    stems = {name: f"{name}." if name else "" for name, _ in module.named_modules()}
    for prefix, submodule in module.named_modules():
        for key, value in submodule._parameters.items():
            if value is not None:
                parameters.setdefault(id(value), (stems[prefix] + key, []))[1].append(
                    StateSlot(submodule._parameters, key)
                )
    for prefix, submodule in module.named_modules():
        stem = stems[prefix]
        for key, value in submodule._buffers.items():
            if value is not None:
                states.setdefault(id(value), (stem + key, []))[1].append(StateSlot(submodule._buffers, key))
                buffers.add(states[id(value)][0])
        for name, slot in _plain_tensors(submodule.__dict__, stem):
            known = parameters if id(slot.get()) in parameters else states  # a parameter may lie in a plain list, too
            known.setdefault(id(slot.get()), (name, []))[1].append(slot)
    return HeldState(
        {name: tuple(slots) for name, slots in parameters.values()},
        {name: tuple(slots) for name, slots in states.values()},
        frozenset(buffers),
    )


def _plain_tensors(table: Any, stem: str, depth: int = 3) -> Iterator[tuple[str, StateSlot]]:
    """Tensors that are attributes of a module, or lie in its lists and dictionaries, with their names."""
    items = list(table.items()) if isinstance(table, dict) else list(enumerate(table))
    for key, value in items:
        if isinstance(value, Tensor) and key not in OWN:
            yield f"{stem}{key}", StateSlot(table, key)
        elif depth and isinstance(value, dict | list) and key not in OWN:
            yield from _plain_tensors(value, f"{stem}{key}.", depth - 1)


@contextlib.contextmanager
def attributes_kept(module: nn.Module) -> Iterator[dict[str, Any]]:
    """Put the attributes of a module and of its parts back in the end, which a run of it may change.

    Gives the plain values by name that are there at first, for `check_unchanged`.
    """
    saved = [(submodule, dict(submodule.__dict__)) for submodule in module.modules()]
    tables = [(value, _table_copy(value)) for _, values in saved for value in values.values() if _is_table(value)]
    grads = [(p, p.grad) for p in module.parameters()]
    try:
        yield _plain(module)
    finally:
        for submodule, values in saved:
            submodule.__dict__.clear()
            submodule.__dict__.update(values)
        for table, content in tables:
            _refill(table, content)
        for parameter, grad in grads:
            parameter.grad = grad


def _is_table(value: Any) -> bool:
    return isinstance(value, dict | list | set)


def _table_copy(value: Any) -> Any:
    return copy.copy(value)


def _refill(table: Any, content: Any) -> None:
    table.clear()
    (table.extend if isinstance(table, list) else table.update)(content)


def _plain(module: nn.Module) -> dict[str, Any]:
    """The attributes that hold numbers, words, and collections of such, by name."""
    found = {}
    for prefix, submodule in module.named_modules():
        for key, value in submodule.__dict__.items():
            if key not in OWN and _is_simple(value):
                found[f"{prefix}.{key}" if prefix else key] = copy.deepcopy(value)
    return found


def _is_simple(value: Any, depth: int = 4) -> bool:
    if isinstance(value, SIMPLE):
        return True
    if depth and isinstance(value, Mapping):
        return all(_is_simple(v, depth - 1) for v in (*value.keys(), *value.values()))
    return bool(depth) and isinstance(value, list | tuple | set) and all(_is_simple(v, depth - 1) for v in value)


def check_unchanged(module: nn.Module, before: Mapping[str, Any]) -> None:
    """Raise GraphProblem where a run of the module changed a plain attribute: a generated program has no such thing."""
    after = _plain(module)
    changed = sorted(n for n, value in after.items() if n not in before or before[n] != value)
    changed += sorted(n for n in before.keys() - after.keys() if not _now_tensor(module, n))
    changed = [n for n in changed if n in before]
    if changed:
        name = changed[0]
        facts = [("before", repr(before[name])[:80]), ("after", repr(after.get(name, "no plain value"))[:80])]
        facts += [("others", ", ".join(changed[1:]))] if changed[1:] else []
        hint = f"a buffer instead: self.register_buffer({name.rpartition('.')[2]!r}, torch.tensor(...)), which is kept"
        raise GraphProblem(f"forward changes the attribute {name!r} of the module", facts, hint)


def _now_tensor(module: nn.Module, name: str) -> bool:
    prefix, _, key = name.rpartition(".")
    submodule = module.get_submodule(prefix) if prefix else module
    return isinstance(getattr(submodule, key, None), Tensor)


@contextlib.contextmanager
def random_state_kept() -> Iterator[None]:
    """Put the states of the generators of PyTorch, Python and numpy back in the end."""
    others = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(others[0])
        np.random.set_state(others[1])


def _states() -> dict[str, Any]:
    """The states of generators other than PyTorch's, in a form that compares."""
    numbers = np.random.get_state(legacy=False)
    assert isinstance(numbers, dict)
    return {"Python's random": random.getstate(), "numpy.random": repr(numbers["state"])}


@contextlib.contextmanager
def undrawn() -> Iterator[None]:
    """Raise GraphProblem where numbers are drawn meanwhile that a traced graph does not have."""
    before = _states()
    yield
    drawn = [name for name, state in _states().items() if state != before[name]]
    if drawn:
        cause = f"forward draws from {drawn[0]}, and the traced step would have the same number in each pass"
        raise GraphProblem(cause, hint="torch.rand, torch.bernoulli, or another function of PyTorch's, in its place")


def parameter_hooks(parameter: nn.Parameter) -> tuple[Sequence[Any], Sequence[Any]]:
    """The hooks of a parameter on its gradient, and those after it was accumulated, in order."""
    plain = getattr(parameter, "_backward_hooks", None) or {}
    behind = getattr(parameter, "_post_accumulate_grad_hooks", None) or {}
    return tuple(plain.values()), tuple(behind.values())
