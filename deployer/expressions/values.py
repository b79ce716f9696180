"""Values of expressions: of formulas in numpy, of words as functions of their variables."""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from deployer.core.operator import Array
from deployer.expressions.formula import Attr, Input
from deployer.expressions.tree import Call, Expr, Expression, Number, Thunk, Var, distinct


def compiled(expression: Expr, leaf: Callable[[Expression], Thunk]) -> Thunk:
    """The value of a word as a function of its variables by name; `leaf` makes that of any other leaf."""
    match expression:
        case int():
            return lambda _: expression
        case Var(name):
            return itemgetter(name)
        case Call(function, (Var(name), int(constant))) if not function.lazy:
            return _of_variable(function.meaning, name, constant)
        case Call(function, operands):
            thunks = [compiled(x, leaf) for x in operands]
            if function.lazy:
                thunk: Thunk = function.meaning(*thunks)
                return thunk
            return _left_fold(function.meaning, thunks) if function.variadic else _applied(function.meaning, thunks)
        case _:
            return leaf(expression)


def _of_variable(meaning: Callable[..., Any], name: str, constant: int) -> Thunk:
    """A function of a variable and a constant, of which conditions and loops have many."""
    return lambda values: meaning(values[name], constant)


def _left_fold(meaning: Callable[..., Any], operands: Sequence[Thunk]) -> Thunk:
    folded, *others = operands
    for other in others:
        folded = _applied(meaning, (folded, other))
    return folded


def _applied(meaning: Callable[..., Any], operands: Sequence[Thunk]) -> Thunk:
    match operands:
        case (only,):
            return lambda values: meaning(only(values))
        case (first, second):
            return lambda values: meaning(first(values), second(values))
    return lambda values: meaning(*[operand(values) for operand in operands])


def evaluate(formula: Expression, inputs: Mapping[str, Array], attributes: Mapping[str, float]) -> Array:
    """The value of a formula: floats in the type of the first input of floats, integers in theirs, truths as int32.

    In float32 it rounds as the kernels do; in float64 it is the meaning. An attribute of a file is the float32 that the
    kernel gets; that of a captured step is the module's own number.
    """
    nodes = distinct(formula)
    reals = [inputs[x.name] for x in nodes if isinstance(x, Input) and x.kind == "float"]
    dtype = reals[0].dtype if reals else np.dtype(np.float32)
    found: dict[object, Array] = {}
    with np.errstate(all="ignore"):
        for node in nodes:
            match node:
                case Number(value):
                    found[node] = np.asarray(value, dtype)
                case Attr(name):
                    found[node] = np.asarray(attributes[name], dtype)
                case Input(name):
                    found[node] = inputs[name] != 0 if node.kind == "bool" else inputs[name]
                case Call(function, operands):
                    found[node] = np.asarray(function.meaning(*(found[x] for x in operands)))
    if formula.kind == "int":
        return found[formula]
    return np.asarray(found[formula], dtype if formula.kind == "float" else np.int32)
