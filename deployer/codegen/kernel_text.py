"""C files of kernels that operators declare by a formula."""

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from deployer.codegen.c_text import WIDTH, float_literal
from deployer.codegen.kernel_headers import C_TYPES
from deployer.core.errors import InternalError
from deployer.core.safe_text import CText, c_comment, code, identifier
from deployer.expressions.c_text import c_text
from deployer.expressions.formula import Attr, Formula, Input, operations
from deployer.expressions.functions import APPROXIMATIONS
from deployer.expressions.tree import Call, Number, calls, distinct
from deployer.operators.base.elementwise_dsl import ElementwiseFormula, Pointwise, printed_kernels

INDENT = 12
SHORT, UNROLLED = 8, 4
"""Loops over formulas of so few operations are unrolled: a jump costs as much as three operations."""
GLUE = "\0"
"""Stands for a space at which no line ends."""


@dataclass(frozen=True)
class _Pointer:
    name: CText
    type: CText


@dataclass(frozen=True)
class KernelView:
    """View of a kernel for its template.

    `statements` declare common subexpressions of the results, `pragmas` stand before the loop over elements. `further`
    are results behind the first, with their values.
    """

    note: CText
    headers: tuple[CText, ...]
    symbol: CText
    settings: tuple[CText, ...]
    operands: tuple[_Pointer, ...]
    statements: tuple[CText, ...]
    result: _Pointer
    value: CText
    further: tuple[tuple[_Pointer, CText], ...]
    pragmas: tuple[CText, ...]


def printed_kernel(symbol: str) -> tuple[str, KernelView] | None:
    """The template and the view of a kernel that is printed from a formula; None for kernels that are written."""
    operator = printed_kernels().get(symbol)
    if operator is None:
        return None
    return "flat_kernel.c" if isinstance(operator, Pointwise) else "broadcast_kernel.c", _view(operator)


def _view(operator: ElementwiseFormula) -> KernelView:
    formulas, kernel = operator.formulas(), operator.kernel
    if kernel is None:
        raise InternalError(f"operator {operator.name} has no kernel")
    headers = {call.function.header for call in calls(*formulas)} - {""}
    pointers = [_Pointer(identifier(name), code(C_TYPES[dtype])) for name, dtype, _ in kernel.pointers]
    statements, (value, *more) = _statements(formulas, bool(APPROXIMATIONS & headers))
    operands, (result, *further) = pointers[: -len(formulas)], pointers[-len(formulas) :]
    return KernelView(
        note=c_comment(f"{operator.name}, as its formula says."),
        headers=tuple(identifier(name.removesuffix(".h")) for name in (kernel.symbol, *sorted(headers), "share_f32.h")),
        symbol=identifier(kernel.symbol),
        settings=tuple(map(identifier, operator.defaults)),
        operands=tuple(operands),
        statements=statements,
        result=result,
        value=value,
        further=tuple(zip(further, more, strict=True)),
        pragmas=(code(f"GCC unroll {UNROLLED}"),) if _is_short(formulas) else (),
    )


def _is_short(formulas: Sequence[Formula]) -> bool:
    plain, transcendentals = operations(*formulas)
    return plain <= SHORT and not transcendentals


def _statements(formulas: Sequence[Formula], literals: bool) -> tuple[tuple[CText, ...], list[CText]]:
    """Declarations of the calls that are read more than once, and the results."""
    reads = Counter([*formulas, *(x for node in distinct(*formulas) for x in node.children())])
    names: dict[Formula, str] = {}

    def own(node: Formula) -> str | None:
        return names.get(node) if isinstance(node, Call) else _leaf(node, literals)

    lines: list[CText] = []
    for call in calls(*formulas):
        if reads[call] > 1:
            kind = {"float": "float", "bool": "int", "int": "int32_t"}[call.kind]
            lines.append(_folded(f"const {kind} part{len(names)} = {c_text(call, own)}"))
            names[call] = f"part{len(names)}"
    return tuple(lines), [_folded(c_text(formula, own)) for formula in formulas]


def _leaf(node: Formula, literals: bool) -> str:
    match node:
        case Number(value):
            text = float_literal(value).replace(" ", GLUE)
            plain = value in (0.0, 1.0) or not literals
            return (f"({text})" if value < 0 else text) if plain else f"LITERAL_F32({text})"
        case Input(name) | Attr(name):
            return name
    raise InternalError(f"{node} has no C")


def _folded(text: str) -> CText:
    """The text in lines, broken at spaces but not inside of a literal."""
    lines = textwrap.wrap(text, WIDTH - INDENT, break_long_words=False, break_on_hyphens=False)
    return code(f"\n{' ' * INDENT}    ".join(lines).replace(GLUE, " "))
