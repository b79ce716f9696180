"""The form of any node, judged where operators and kernels take it for granted."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.limits import check_type
from deployer.core.operator import ArgValue, Const, Kernel, Operator, operator_of, unsupported

ARGUMENTS = {"u32": (0, (1 << 32) - 1), "i32": (-(1 << 31), (1 << 31) - 1)}
"""Smallest and largest value of the integer types that kernels take."""
MISFITS = (IndexError, KeyError, TypeError, ValueError, AttributeError, OverflowError)
"""What an operator may raise on inputs or attributes that it cannot even look at."""


@contextmanager
def form_of(node: Node) -> Iterator[None]:
    """UnsupportedOperator where an operator cannot even look at a node's inputs or attributes."""
    try:
        yield
    except MISFITS as error:
        why = f"its inputs or attributes do not have the operator's form ({error})"
        raise unsupported(node, why, "the form that the ONNX operator list gives") from error


def inferred(operator: Operator, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
    """The operator's types; UnsupportedOperator for attributes that no operator takes, or of another form."""
    _check_flags(node, operator)
    _check_finite(node, operator)
    with form_of(node):
        types = operator.infer(node, inputs)
    for name, kind in zip(node.outputs, types, strict=False):
        check_type(f"{name!r} of node {node.name!r} ({node.op})", kind)
    return types


def _check_flags(node: Node, operator: Operator) -> None:
    """A flag is 0 or 1. Of others some implementations take any for true, some the one alone."""
    for name in operator.flags:
        value = node.attrs.get(name, 0)
        if not isinstance(value, int) or value not in (0, 1):
            raise unsupported(node, f"{name} is {value!r}", f"{name} 0 or 1")


def _check_finite(node: Node, operator: Operator) -> None:
    for name, value in node.attrs.items():
        if name not in operator.unbounded and not _finite(value):
            raise unsupported(node, f"{name} is {value!r}", f"a finite {name}")


def _finite(value: AttrValue) -> bool:
    numbers = value if isinstance(value, tuple) else (value,)
    return all(math.isfinite(n) for n in numbers if isinstance(n, float))


def check_kernel(node: Node, types: Mapping[str, TensorType]) -> None:
    """UnsupportedOperator where the operator's kernel takes operands of another dtype, or a number does not fit it."""
    operator = operator_of(node)
    if operator.kernel is None:
        return
    with form_of(node):
        access = operator.access(node, types)
        args = operator.args(node, access)
    wanted = {name: dtype for name, dtype, _ in operator.kernel.pointers}
    for operand in access.operands:
        found = types[operand.tensor]
        if found.dtype != wanted[operand.arg]:
            why = f"its operand {operand.tensor!r} is {found}"
            raise unsupported(node, why, f"{wanted[operand.arg]}, or constants, which are folded")
    _check_arguments(node, operator.kernel, args)


def _check_arguments(node: Node, kernel: Kernel, args: Mapping[str, ArgValue]) -> None:
    for name, kind in kernel.scalars:
        value = args.get(name)
        if isinstance(value, Const) and kind in ARGUMENTS:
            least, most = ARGUMENTS[kind]
            if not least <= value.value <= most:
                raise unsupported(node, f"kernel argument {name} would be {value.value}", f"{least} to {most}")
