"""Pages and samples of a library."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from deployer.codegen.c_text import decimal_literal
from deployer.codegen.harness import data_read
from deployer.codegen.kernel_headers import C_TYPES
from deployer.core.ir import Program
from deployer.core.operator import Array
from deployer.core.plan import Plan
from deployer.core.safe_text import CText, c_comment, code, markdown_code
from deployer.firmware.interface import TensorView, shape_text
from deployer.firmware.state import is_state
from deployer.frontend.dataset import Dataset

# Tables and sentences of a library's page.


@dataclass(frozen=True)
class SizeRow:
    """Something that takes bytes, and where."""

    what: CText
    bytes: int
    where: CText


@dataclass(frozen=True)
class WeightRow:
    """A tensor of the state, by its index."""

    index: int
    label: CText
    kind: CText
    shape: CText
    role: CText


def size_rows(
    name: str, struct_bytes: int, weight_bytes: int, frozen_bytes: int, step_bytes: int
) -> tuple[SizeRow, ...]:
    """The bytes that follow from the plan."""
    return (
        SizeRow(code(f"a struct {name}_t"), struct_bytes, code("writable memory, once per model in training")),
        SizeRow(code("first weights"), weight_bytes, code("constants")),
        SizeRow(code("frozen weights and other constants"), frozen_bytes, code("constants, read in place")),
        SizeRow(code("tables of steps"), step_bytes, code("constants")),
    )


def model_size_rows(name: str, struct_bytes: int, constant_bytes: int, step_bytes: int) -> tuple[SizeRow, ...]:
    """The same of a library that only predicts."""
    return (
        SizeRow(code(f"a struct {name}_t"), struct_bytes, code("writable memory")),
        SizeRow(code("weights"), constant_bytes, code("constants, read in place")),
        SizeRow(code("tables of steps"), step_bytes, code("constants")),
    )


def weight_rows(plan: Plan, program: Program, among: Collection[str] | None = None) -> tuple[WeightRow, ...]:
    """The weights, all or those `among` others, in the order of their indices."""
    names = [name for name in plan.weights if among is None or name in among]
    tensors = [(program.tensors[name], program.tensors[name].type) for name in names]
    return tuple(
        WeightRow(
            index,
            markdown_code(tensor.name),
            code(C_TYPES[kind.dtype]),
            code(shape_text(kind)),
            code("" if is_state(tensor) else "weight"),
        )
        for index, (tensor, kind) in enumerate(tensors)
    )


def rate_text(name: str, rates: Sequence[float]) -> CText:
    """Return the C comment that explains how to set the rates and lists their initial values."""
    if not rates:
        return c_comment("The learning rate of this model is a constant.")
    first = ", ".join(str(np.float32(rate)) for rate in rates)
    text = f"{name}_set_learning_rate(&model, group, rate) sets a rate from the next update on. "
    text += "Schedules are up to the caller. "
    text += f"Groups: {len(rates)}, with the initial rate{'s' if len(rates) > 1 else ''} {first}."
    return c_comment(text)


# The samples of a case as C, for the program that comes with a library.

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
    """Training data of the program: an array per input, the sample of each pass, the rates of each update.

    `left` says whether passes behind the last full update have one of their own.
    """

    arrays: tuple[ArrayView, ...]
    count: int
    order: tuple[CText, ...]
    passes: int
    rates: tuple[CText, ...]
    left: int


def samples_view(plan: Plan, program: Program, inputs: Sequence[TensorView], dataset: Dataset) -> SamplesView:
    """The samples for these inputs in the order of the passes, each once."""
    read = data_read(plan)
    known: dict[bytes, int] = {}
    samples: list[list[Array]] = []
    order = []
    for index in range(dataset.n_batches):
        given = dict(zip(plan.data, dataset.sample(index), strict=True))
        sample = [np.asarray(given[name], program.tensors[name].type.dtype) for name in read]
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
            array_view(view, [sample[position] for sample in samples]) for position, view in enumerate(inputs)
        ),
        count=len(samples),
        order=listed([str(number) for number in order]),
        passes=len(order),
        rates=rates_text(rates),
        left=int(dataset.flush and len(order) == dataset.n_batches and dataset.left > 0),
    )


def array_view(view: TensorView, samples: Sequence[Array]) -> ArrayView:
    """Samples of an input."""
    return ArrayView(view, tuple(map(_row, samples)))


def rates_text(rates: Array) -> tuple[CText, ...]:
    """The rates of each update in C."""
    return tuple(code("{" + ", ".join(map(_number, row)) + "}") for row in rates.tolist())


def _row(array: Array) -> tuple[CText, ...]:
    return listed([_number(value) for value in array.reshape(-1).tolist()])


def listed(numbers: Sequence[str]) -> tuple[CText, ...]:
    """Numbers in lines of C, as many on each."""
    return tuple(code(", ".join(numbers[at : at + ON_A_LINE]) + ",") for at in range(0, len(numbers), ON_A_LINE))


def _number(value: float | int) -> str:
    return str(value) if isinstance(value, int) else decimal_literal(value)
