"""Words of loop programs: calls with their constants folded."""

from deployer.expressions.functions import WORDS
from deployer.expressions.tree import Call, Expr

_OF = {function.name: function for function in WORDS}
ADD, SUB, MUL = _OF["add"], _OF["sub"], _OF["mul"]


def word(name: str, *operands: Expr) -> Call:
    """Call a function of words without folding constants."""
    return Call(_OF[name], operands)


def is_call(value: Expr, name: str) -> bool:
    """Whether an expression is a call of the function of words that has this name."""
    return isinstance(value, Call) and value.function is _OF[name]


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
        for inner in factor.operands if isinstance(factor, Call) and factor.function is MUL else (factor,):
            if isinstance(inner, int):
                constant *= inner
            else:
                kept.append(inner)
    if constant == 0 or not kept:
        return constant
    if constant != 1:
        kept.append(constant)
    return kept[0] if len(kept) == 1 and not is_call(kept[0], "add") else Call(MUL, tuple(kept))


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
