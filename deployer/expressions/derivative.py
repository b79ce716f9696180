"""Derivatives of formulas: the slopes of functions, and algebra that lets zeros and ones vanish while they are made."""

from collections.abc import Callable, Sequence

from deployer.expressions.tree import Call, Expression, Number, Slope, call, distinct

ZERO, HALF, ONE = Number(0.0), Number(0.5), Number(1.0)


def plus(a: Expression, b: Expression) -> Expression:
    """a + b without zeros."""
    return b if a == ZERO else a if b == ZERO else a + b


def minus(a: Expression, b: Expression) -> Expression:
    """a - b without zeros."""
    return a if b == ZERO else negative(b) if a == ZERO else a - b


def negative(a: Expression) -> Expression:
    """-a, of a number at once."""
    return Number(-a.value) if isinstance(a, Number) and a != ZERO else a if a == ZERO else -a


def times(a: Expression, b: Expression) -> Expression:
    """a b without ones; where a chosen factor is 0 or 1, so is the product 0 or the other factor, whatever that is."""
    if ZERO in (a, b):
        return ZERO
    if ONE in (a, b):
        return b if a == ONE else a
    for chosen, other in ((b, a), (a, b)):
        if isinstance(chosen, Call) and chosen.function.name == "choose" and {ZERO, ONE} & set(chosen.operands):
            condition, then, otherwise = chosen.nodes
            return select(condition, times(other, then), times(other, otherwise))
    return a * b


def over(a: Expression, b: Expression) -> Expression:
    """a / b without zeros."""
    return ZERO if a == ZERO else a / b


def select(condition: Expression, then: Expression, other: Expression) -> Expression:
    """The choice, unless both are the same."""
    return then if then == other else call("choose", condition, then, other)


def chain(slope: Callable[[Expression, Expression], Expression]) -> Slope:
    """The chain rule for a function of one operand, by its slope from the operand and the call itself."""
    return lambda f, u, d: ZERO if d[0] == ZERO else times(d[0], slope(u[0], f))


def chain_by(divisor: Callable[[Expression], Expression]) -> Slope:
    """The chain rule for a function of one operand whose slope is 1 by a divisor from the operand."""
    return lambda f, u, d: over(d[0], divisor(u[0]))


def of_product(f: Call, u: Sequence[Expression], d: Sequence[Expression]) -> Expression:
    """The derivative of a b."""
    return plus(times(d[0], u[1]), times(d[1], u[0]))


def of_quotient(f: Call, u: Sequence[Expression], d: Sequence[Expression]) -> Expression:
    """The derivative of a / b."""
    return over(minus(d[0], times(d[1], f)), u[1])


def of_remainder(f: Call, u: Sequence[Expression], d: Sequence[Expression]) -> Expression:
    """The derivative of a - q b, where q is constant."""
    return minus(d[0], times(d[1], call("round", (u[0] - f) / u[1])))


def of_sign(f: Call, u: Sequence[Expression], d: Sequence[Expression]) -> Expression:
    """The derivative of |a|, 0 where a is."""
    return select(Number(0.0) < u[0], d[0], select(u[0] < 0.0, negative(d[0]), ZERO))


def of_extreme(larger: bool) -> Slope:
    """The derivative of the chosen one; of both a half where they are equal."""

    def slope(f: Call, u: Sequence[Expression], d: Sequence[Expression]) -> Expression:
        a, b = u
        first, second = (b < a, a < b) if larger else (a < b, b < a)
        if isinstance(a, Number) or isinstance(b, Number):  # a clip: nothing to share
            return select(first, d[0], d[1]) if isinstance(b, Number) else select(second, d[1], d[0])
        return select(first, d[0], select(second, d[1], times(HALF, plus(d[0], d[1]))))

    return slope


def root(u: Expression) -> Expression:
    """The square root."""
    return call("sqrt", u)


def circle(u: Expression) -> Expression:
    """1 - u^2, as accurate near 1 as elsewhere."""
    return (ONE - u) * (ONE + u)


def derivative(formula: Expression, of: Expression) -> Expression:
    """The derivative of a formula with respect to one of its inputs."""
    found: dict[object, Expression] = {}
    for node in distinct(formula):
        found[node] = ONE if node == of else ZERO
        if isinstance(node, Call) and node != of:
            inner = [found[x] for x in node.nodes]
            if set(inner) != {ZERO} and node.function.slope:
                found[node] = node.function.slope(node, node.nodes, inner)
    return found[formula]
