"""Tables and sentences of a library's page."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deployer.codegen.kernel_headers import C_TYPES
from deployer.core.ir import Program
from deployer.core.plan import Plan
from deployer.core.safe_text import CText, c_comment, code, markdown_code
from deployer.firmware.interface import shape_text
from deployer.firmware.state import is_state


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
        SizeRow(
            code(f"a struct {name}_t"), struct_bytes, code("memory that is written, once for each model in training")
        ),
        SizeRow(code("first weights"), weight_bytes, code("constants")),
        SizeRow(code("frozen weights and other constants"), frozen_bytes, code("constants, read where they lie")),
        SizeRow(code("tables of steps"), step_bytes, code("constants")),
    )


def weight_rows(plan: Plan, program: Program) -> tuple[WeightRow, ...]:
    """The weights in the order of their indices."""
    tensors = [(program.tensors[name], program.tensors[name].type) for name in plan.weights]
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
        return c_comment("The optimizer of this model has its rate as a constant.")
    first = ", ".join(str(np.float32(rate)) for rate in rates)
    text = f"{name}_set_learning_rate(&model, group, rate) counts from the next update on. Schedules are the caller's. "
    text += f"Groups: {len(rates)}, with the rate{'s' if len(rates) > 1 else ''} {first} at first."
    return c_comment(text)
