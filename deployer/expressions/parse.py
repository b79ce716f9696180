"""Text of a file as an expression of words: Python's syntax for integers, comparisons and logic.

The text never becomes code: Python's parser makes its tree, and of that the known forms become calls.
"""

import ast
from collections.abc import Callable, Mapping

from deployer.expressions.tree import Expr
from deployer.expressions.words import word

OPERATORS: dict[type[ast.AST], str] = {
    **{ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "div", ast.Mod: "mod"},
    **{ast.Eq: "equal", ast.NotEq: "not_equal", ast.Lt: "less", ast.LtE: "less_equal"},
    **{ast.Gt: "greater", ast.GtE: "greater_equal"},
    **{ast.USub: "neg", ast.Not: "not", ast.And: "and", ast.Or: "or"},
}
Functions = Mapping[str, Callable[[Expr], Expr]]
"""Further functions of one operand that a text may call, by name."""


class NotAnExpression(ValueError):
    """A text that is no expression of this language."""


def parse(text: str, name: Callable[[str], Expr], functions: Functions) -> Expr:
    """The expression of a text; `name` gives that of a name. NotAnExpression for anything else."""
    try:
        return _expression(ast.parse(text, mode="eval").body, name, functions)
    except (SyntaxError, ValueError, KeyError, RecursionError, MemoryError) as error:
        raise NotAnExpression(text) from error


def _expression(tree: ast.expr, name: Callable[[str], Expr], functions: Functions) -> Expr:
    def inner(child: ast.expr) -> Expr:
        return _expression(child, name, functions)

    match tree:
        case ast.Constant(int(number)):
            return int(number)
        case ast.Name(identifier):
            return name(identifier)
        case ast.UnaryOp(kind, operand):
            return word(OPERATORS[type(kind)], inner(operand))
        case ast.BinOp(left, kind, right):
            return word(OPERATORS[type(kind)], inner(left), inner(right))
        case ast.BoolOp(kind, operands):
            return word(OPERATORS[type(kind)], *map(inner, operands))
        case ast.IfExp(condition, then, other):
            return word("choose", *map(inner, (condition, then, other)))
        case ast.Compare(left, kinds, others):
            values = [inner(x) for x in (left, *others)]
            links = zip(kinds, values, values[1:], strict=False)
            compared = [word(OPERATORS[type(kind)], first, second) for kind, first, second in links]
            return compared[0] if len(compared) == 1 else word("and", *compared)
        case ast.Call(ast.Name(function), [operand], []):
            return functions[function](inner(operand))
    raise NotAnExpression(ast.unparse(tree))
