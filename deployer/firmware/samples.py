"""The samples of a case as C, for the program that comes with a library."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deployer.core.ir import Program
from deployer.core.operator import Array
from deployer.core.plan import Plan
from deployer.core.safe_text import CText, code
from deployer.firmware.interface import TensorView, input_views
from deployer.frontend.dataset import Dataset

MOST_BYTES = 1 << 20
"""Samples of so many bytes are printed; the program makes as many passes as it has samples for, if they are more."""


ON_A_LINE = 8
"""Numbers on a line of C."""


@dataclass(frozen=True)
class ArrayView:
    """The values of an input in all samples, a row each, in lines of C."""

    input: TensorView
    rows: tuple[tuple[CText, ...], ...]


@dataclass(frozen=True)
class SamplesView:
    """What the program trains on: an array for each input, the sample of each pass, the rates of each update.

    `left` says whether passes behind the last full update have one of their own.
    """

    arrays: tuple[ArrayView, ...]
    count: int
    order: tuple[CText, ...]
    passes: int
    rates: tuple[CText, ...]
    updates: int
    left: int


def samples_view(plan: Plan, program: Program, dataset: Dataset) -> SamplesView:
    """The samples in the order of the passes, each once."""
    inputs = input_views(plan, program)
    read = [program.data.index(name) for name in _read(plan, program)]
    known: dict[bytes, int] = {}
    samples: list[list[Array]] = []
    order = []
    for index in range(dataset.n_batches):
        sample = [np.asarray(dataset.sample(index)[i], program.tensors[program.data[i]].type.dtype) for i in read]
        content = b"".join(array.tobytes() for array in sample)
        if content not in known:
            if samples and (len(samples) + 1) * len(content) > MOST_BYTES:
                break
            known[content] = len(samples)
            samples.append(sample)
        order.append(known[content])
    rates = dataset.rates if len(order) == dataset.n_batches else dataset.rates[: len(order) // dataset.n_accum]
    return SamplesView(
        arrays=tuple(
            ArrayView(view, tuple(_row(sample[position]) for sample in samples)) for position, view in enumerate(inputs)
        ),
        count=len(samples),
        order=listed([str(number) for number in order]),
        passes=len(order),
        rates=tuple(code("{" + ", ".join(map(_number, row)) + "}") for row in rates.tolist()),
        updates=len(rates),
        left=int(dataset.flush and len(order) == dataset.n_batches and dataset.left > 0),
    )


def _read(plan: Plan, program: Program) -> list[str]:
    homes = {home.storage for home in plan.homes}
    return [name for name in program.data if plan.storage_of[name] in homes]


def _row(array: Array) -> tuple[CText, ...]:
    return listed([_number(value) for value in array.reshape(-1).tolist()])


def listed(numbers: Sequence[str]) -> tuple[CText, ...]:
    """Numbers in lines of C, as many on each."""
    return tuple(code(", ".join(numbers[at : at + ON_A_LINE]) + ",") for at in range(0, len(numbers), ON_A_LINE))


def _number(value: float | int) -> str:
    """A number of C; nine digits have all bits of a float."""
    text = str(value) if isinstance(value, int) else f"{value:.9g}"
    return text if isinstance(value, int) else f"{text}f" if {".", "e"} & set(text) else f"{text}.0f"
