"""Words of loop programs: calls with their constants folded."""

import math

from deployer.expressions.functions import WORDS
from deployer.expressions.tree import Call, Expr, Function

_OF = {function.name: function for function in WORDS}
ADD, SUB, MUL = _OF["add"], _OF["sub"], _OF["mul"]


def word(name: str, *operands: Expr) -> Call:
    """Call a function of words without folding constants."""
    return Call(_OF[name], operands)


def is_call(value: Expr, function: Function) -> bool:
    """Whether an expression is a call of this function."""
    return isinstance(value, Call) and value.function is function


def add(*terms: Expr) -> Expr:
    """The sum of the terms, without zeros, and with all constants as one term at the end."""
    kept: list[Expr] = [t for t in terms if not isinstance(t, int)]
    constant = sum(t for t in terms if isinstance(t, int))
    if constant or not kept:
        kept.append(constant)
    return kept[0] if len(kept) == 1 else Call(ADD, tuple(kept))


def mul(*factors: Expr) -> Expr:
    """The product of the factors: 0 if one is, else without ones and with all constants as one factor at the end.

    A sum as the only factor stays a product, so that it is printed in parentheses where needed.
    """
    constant = 1
    kept: list[Expr] = []
    for factor in factors:
        if isinstance(factor, int):
            constant *= factor
        elif isinstance(factor, Call) and factor.function is MUL:
            kept += [x for x in factor.operands if not isinstance(x, int)]
            constant *= math.prod(x for x in factor.operands if isinstance(x, int))
        else:
            kept.append(factor)
    if constant == 0 or not kept:
        return constant
    if constant != 1:
        kept.append(constant)
    return Call(MUL, tuple(kept)) if len(kept) > 1 or is_call(kept[0], ADD) else kept[0]


def sub(value: Expr, less: Expr) -> Expr:
    """The difference of two words: 0 for equal ones, and the word itself if `less` is 0."""
    if value == less:
        return 0
    if isinstance(value, int) and isinstance(less, int):
        return value - less
    return value if less == 0 else Call(SUB, (value, less))


def moved(value: Expr, by: int) -> Expr:
    """The word and a constant, which may be negative."""
    return add(value, by) if by >= 0 else sub(value, -by)


def div_up(value: Expr, divisor: int) -> Expr:
    """A word divided by a constant, rounded up."""
    if isinstance(value, int):
        return -(-value // divisor)
    return word("div", add(value, divisor - 1), divisor)


def all_of(conditions: list[Expr]) -> Expr:
    """The conjunction of the conditions; 1 if there are none."""
    return conditions[0] if len(conditions) == 1 else word("and", *conditions) if conditions else 1
