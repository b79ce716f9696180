"""Expressions as C, with the parentheses that precedence asks for."""

from collections.abc import Callable, Sequence

from deployer.core.errors import InternalError
from deployer.expressions.tree import Call, Expr, Expression, Function

ATOM = 9
BINDING = {
    **{"-{0}": (8, 8, 8), "!{0}": (8, 8, 8), "~{0}": (8, 8, 8), "(int32_t)({0})": (8, 0, 0)},
    **{"*": (7, 7, 7), "+": (6, 6, 6), "(({0} / {1}))": (6, ATOM, ATOM), "-": (5, 5, 7)},
    **{">=": (4, 5, 5), "==": (4, 5, 5), "&&": (3, 4, 4), "{0} ? {1} : {2}": (1, 2, 1)},
    **dict.fromkeys(("<", "<=", "&", "|", "^", "||", "!{0} != !{1}"), (1, ATOM, ATOM)),
}
"""Precedence of C's operators: of the operator, and the least of a first and of a later operand without parentheses.

A difference in a sum has parentheses: a pointer must not leave its array in between.
"""


def c_text(expression: Expr, own: Callable[[Expression], str | None], least: int = 0) -> str:
    """Print an expression as C, in parentheses if its precedence is below `least`.

    `own` gives the text of a leaf, or of a call that has a name; None for other calls.
    """
    if isinstance(expression, int):
        return str(expression)
    text = own(expression)
    if text is not None:
        return text
    if not isinstance(expression, Call):
        raise InternalError(f"{expression} has no C")
    function = expression.function
    level, first, others = BINDING.get(function.c, (ATOM, 0, 0))
    if "word" not in function.operands:  # a formula shows the order in which it rounds
        first = others = ATOM
    texts = [c_text(x, own, others if at else first) for at, x in enumerate(expression.operands)]
    text = _joined(function, texts)
    return f"({text})" if level < least else text


def _joined(function: Function, operands: Sequence[str]) -> str:
    if "{" in function.c:
        return function.c.format(*operands)
    if function.c.isidentifier():
        return f"{function.c}({', '.join(operands)})"
    if not function.c:
        raise InternalError(f"{function.name} of {', '.join(function.operands)} has no C")
    return f" {function.c} ".join(operands)
