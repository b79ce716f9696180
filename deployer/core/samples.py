"""Samples of operators: uses for tests and for measuring kernels, kept beside the operators' own files.

They lie in a module `samples` of the operator's package, which is imported when they are first asked for. A function
there is registered for a class of operators by `samples_of`, or by `sweep_of`, and serves its subclasses as well.
"""

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import numpy.typing as npt

from deployer.core.ir import AttrValue
from deployer.core.packages import SAMPLES

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Sample:
    """One concrete use for tests: inputs (None = absent), attributes, number of outputs.

    `onnx` says that ONNX Runtime knows this form under its own name, so that it can be the reference.
    """

    label: str
    inputs: tuple[npt.NDArray[Any] | None, ...]
    attrs: dict[str, AttrValue] = field(default_factory=dict)
    outputs: int = 1
    onnx: bool = True


Uses = Callable[[Any], Iterator[Sample]]
_SAMPLES: dict[object, Uses] = {}
_SWEEPS: dict[object, Uses] = {}


def samples_of(
    kind: Callable[..., Kind],
) -> Callable[[Callable[[Kind], Iterator[Sample]]], Callable[[Kind], Iterator[Sample]]]:
    """Register the function that yields the samples of a class of operators, from a fixed seed."""

    def known(function: Callable[[Kind], Iterator[Sample]]) -> Callable[[Kind], Iterator[Sample]]:
        _SAMPLES[kind] = function
        return function

    return known


def sweep_of(
    kind: Callable[..., Kind],
) -> Callable[[Callable[[Kind], Iterator[Sample]]], Callable[[Kind], Iterator[Sample]]]:
    """Register the function that yields the uses on which the kernel of a class of operators is measured."""

    def known(function: Callable[[Kind], Iterator[Sample]]) -> Callable[[Kind], Iterator[Sample]]:
        _SWEEPS[kind] = function
        return function

    return known


def registered_samples(operator: object, behind: object = None) -> Iterator[Sample] | None:
    """The samples that are registered for the operator's class, or for the first of its bases behind one; or None."""
    return _first(_SAMPLES, operator, behind)


def registered_sweep(operator: object, behind: object = None) -> Iterator[Sample] | None:
    """The uses to measure that are registered for the operator's class, or for a base behind one; or None."""
    return _first(_SWEEPS, operator, behind)


def inherited_samples(operator: object, kind: object) -> Iterator[Sample]:
    """The samples that the operator would have without those that are registered for `kind`."""
    found = registered_samples(operator, kind)
    assert found is not None, f"no base of {kind} has samples"
    return found


def inherited_sweep(operator: Any, kind: object) -> Iterator[Sample]:
    """The uses to measure that the operator would have without those that are registered for `kind`."""
    found = registered_sweep(operator, kind)
    uses: Iterator[Sample] = operator.usual_sweep() if found is None else found
    return uses


def _first(table: dict[object, Uses], operator: object, behind: object) -> Iterator[Sample] | None:
    kinds = type(operator).__mro__
    for kind in kinds:
        _load(kind.__module__)
    begin = kinds.index(behind) + 1 if isinstance(behind, type) else 0
    return next((table[kind](operator) for kind in kinds[begin:] if kind in table), None)


@cache
def _load(module: str) -> None:
    """Import the module of samples beside a module, where there is one."""
    package = module.rpartition(".")[0]
    name = f"{package}.{SAMPLES}"
    if package and importlib.util.find_spec(name) is not None:
        importlib.import_module(name)
