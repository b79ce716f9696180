"""The tensors of a module over the memory of a compiled step, so that both have the same numbers at any time."""

import weakref
from collections.abc import Collection, Mapping
from operator import attrgetter
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from deployer.core.errors import OptionProblem
from deployer.core.operator import Array
from deployer.torch.step import CapturedStep
from deployer.torch.tracing.module_state import StateSlot, held_by

ADDRESS, VERSION = Tensor.data_ptr, attrgetter("_version")
AGAIN = "compile_step once more, which begins with the present numbers"
FOLLOWS = 'a group {"params": ..., "lr": 0.0} of the optimizer, whose parameters the step reads anew in each pass'


class OwningStep(Protocol):
    """A step, as far as other steps of its module's tensors know it."""

    passes: int


OWNERS: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()
"""The step whose memory begins at an address of a tensor's."""


class LiveModule:
    """A module whose trained parameters and states lie in the memory of a step, as its own.

    What PyTorch writes there is what the next pass reads, and the other way round. Where a tensor has got other memory
    since, such as that of another step, `take` reads that and binds it again: `is_current` is asked before each pass.
    Tensors that are not float32 on the CPU cannot lie there; then `is_bound` is false, and the step has its own copies.
    """

    def __init__(self, module: nn.Module, names: Collection[str], captured: CapturedStep) -> None:
        """`names` are those of the tensors that the step writes, beside its counters."""
        held = held_by(module)
        known: dict[str, Tensor] = {n: slots[0].get() for n, slots in (held.parameters | held.states).items()}
        self.tensors = {name: known[name] for name in names}
        self.counters = {name: known[name] for name, step in captured.counts.items() if step}
        self.is_bound = not self.odd
        if not self.is_bound:
            self.counters = {name: x.detach().cpu().clone() for name, x in self.counters.items()}
        self._begun = {name: int(x) for name, x in self.counters.items()}
        self._raised = {name: captured.counts[name] for name in self.counters}
        self._counts = self._viewed
        self._places: dict[str, Array] = {}
        self._watched: tuple[Tensor, ...] = ()
        self._addresses: tuple[int, ...] = ()
        others = known.keys() - self.tensors.keys() - captured.counts.keys() - set(captured.unused)
        slots = held.parameters | held.states
        self._constants = Constants({name: slots[name][0] for name in sorted(others)})

    @property
    def odd(self) -> list[str]:
        """The tensors that no step's memory can be that of."""
        return [name for name, x in self.tensors.items() if x.dtype is not torch.float32 or not x.is_cpu]

    @property
    def is_current(self) -> bool:
        """Whether the tensors still lie in the step's memory."""
        return tuple(map(ADDRESS, self._watched)) == self._addresses

    @property
    def _viewed(self) -> tuple[tuple[Array, int], ...]:
        """The memory of each counter, which costs less to raise than its tensor, and by how much a pass raises it."""
        return tuple((x.numpy(), self._raised[name]) for name, x in self.counters.items())

    def count(self) -> None:
        """Raise the counters by a pass."""
        for place, raised in self._counts:
            place += raised

    def count_from_begin(self, passes: int) -> None:
        """Set the counters to what they are after so many passes."""
        for name, tensor in self.counters.items():
            tensor.fill_(self._begun[name] + self._raised[name] * passes)

    def bind(self, places: Mapping[str, Array], step: OwningStep) -> None:
        """Let the tensors lie at these places, whose content they get."""
        if not self.is_bound:
            return
        self._places = {name: places[name] for name in self.tensors}
        for name, tensor in self.tensors.items():
            tensor.data = torch.from_numpy(self._places[name]).reshape(tensor.shape)
            OWNERS[tensor.data_ptr()] = step
        self._counts = self._viewed
        self._watched = (*self.tensors.values(), *self.counters.values())
        self._addresses = tuple(map(ADDRESS, self._watched))

    def take(self, step: OwningStep) -> None:
        """Read what the tensors have elsewhere by now, and bind them again; OptionProblem for what cannot be bound."""
        if self.odd:
            name, tensor = self.odd[0], self.tensors[self.odd[0]]
            facts = [("now", f"{tensor.dtype} on {tensor.device}"), ("compiled with", "torch.float32 on cpu")]
            raise OptionProblem(f"the module's {name!r} was converted after the step was compiled", facts, AGAIN)
        for name, tensor in self.tensors.items():
            self._places[name][...] = tensor.detach().numpy().reshape(self._places[name].shape)
        self.bind(self._places, step)

    def check_constants(self) -> None:
        """Raise OptionProblem where what the step has as a constant has changed."""
        self._constants.check()


class Constants:
    """The tensors of a module that a step has as constants, such as frozen parameters, as they were then."""

    def __init__(self, slots: Mapping[str, StateSlot]) -> None:
        self._names, self._slots = tuple(slots), tuple(slots.values())
        self._before = self._present
        owners = {id(x): x for x in (OWNERS.get(address) for address in self._before[0]) if x is not None}
        self._owners: tuple[tuple[OwningStep, int], ...] = tuple((owner, owner.passes) for owner in owners.values())

    @property
    def _present(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Addresses and versions of the tensors; fewer where one is gone."""
        tensors = [x for slot in self._slots if isinstance(x := slot.get(), Tensor)]
        return tuple(map(ADDRESS, tensors)), tuple(map(VERSION, tensors))

    def check(self) -> None:
        """Raise OptionProblem where PyTorch or another step wrote one of them."""
        if self._present == self._before and all(owner.passes == passes for owner, passes in self._owners):
            return
        names = ", ".join(self._names[:4]) + ", ..." * (len(self._names) > 4)
        cause = "frozen parameters or buffers have changed since the step was compiled, in which they are constants"
        is_parameter = any(isinstance(slot.get(), nn.Parameter) for slot in self._slots)
        raise OptionProblem(cause, [("constants", names)], f"{AGAIN}; or {FOLLOWS}" if is_parameter else AGAIN)
