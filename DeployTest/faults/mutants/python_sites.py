"""Mutation operators over Python's syntax tree."""

import ast
import re
from pathlib import Path

from DeployTest.faults.mutants.site import Mutant, told_apart

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "//",
    ast.FloorDiv: "*",
    ast.Div: "*",
    ast.Mod: "//",
    ast.Pow: "*",
    ast.BitOr: "&",
    ast.BitAnd: "|",
}
SYMBOL = re.compile(r"not\s+in|is\s+not|in|is|[<>=!]=?|//|\*\*|[-+*/%|&]")
TWINS = {"min": "max", "max": "min", "any": "all", "all": "any"}
MESSAGES = (ast.Raise, ast.JoinedStr, ast.Assert)
"""Nodes that hold text for people: a mutant inside of them changes a message and no result."""
SAMPLES = ("sample", "sweep")
"""Methods of operators that make test data: another draw of it is no fault."""


class Finder(ast.NodeVisitor):
    """Collects the mutants of one file."""

    def __init__(self, file: str, source: str) -> None:
        self.file, self.source = file, source
        lines = source.splitlines(keepends=True)
        self.starts = [0]
        for line in lines:
            self.starts.append(self.starts[-1] + len(line))
        self.lines = lines
        self.scope: list[str] = []
        self.found: list[Mutant] = []

    def _at(self, line: int, column: int) -> int:
        """Index of a place that the tree gives as line and byte column."""
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def _span(self, node: ast.AST) -> tuple[int, int]:
        first = self._at(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        return first, self._at(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def _text(self, node: ast.AST) -> str:
        return self.source[slice(*self._span(node))]

    def _add(self, operator: str, node: ast.AST, after: str) -> None:
        start, end = self._span(node)
        line = node.lineno  # type: ignore[attr-defined]
        context = f"{'.'.join(self.scope)}: {self.lines[line - 1].strip()}"
        self.found.append(Mutant(self.file, start, end, line, operator, self.source[start:end], after, context))

    def _other_symbol(self, operator: str, node: ast.AST, left: ast.AST, right: ast.AST, symbol: str) -> None:
        """Replace what stands between two operands, which keep their parentheses."""
        (start, end), (_, before), (behind, _) = self._span(node), self._span(left), self._span(right)
        between = SYMBOL.sub(symbol, self.source[before:behind], count=1)
        self._add(operator, node, self.source[start:before] + between + self.source[behind:end])

    def visit(self, node: ast.AST) -> None:
        """Skip texts, annotations and checks for type checkers; keep the scope's name."""
        if isinstance(node, ast.FunctionDef) and node.name.lstrip("_").startswith(SAMPLES):
            return
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            self.scope.append(node.name)
            self._visit_body(node)
            self.scope.pop()
        elif not isinstance(node, MESSAGES):
            super().visit(node)

    def _visit_body(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        """Statements and defaults; no annotation, decorator or base class."""
        if isinstance(node, ast.FunctionDef):
            for default in (*node.args.defaults, *node.args.kw_defaults):
                if default is not None:
                    self.visit(default)
        for statement in node.body:
            self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """The value alone."""
        if node.value is not None:
            self.visit(node.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        """A call whose result nobody takes is left out; a docstring stays."""
        if isinstance(node.value, ast.Constant):
            return
        if isinstance(node.value, ast.Call):
            self._add("call left out", node, "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """`a += b` becomes `a = b`."""
        self._add("old value forgotten", node, f"{self._text(node.target)} = {self._text(node.value)}")
        self.visit(node.value)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Each comparison by its neighbour."""
        if len(node.ops) == 1:
            self._other_symbol("comparison", node, node.left, node.comparators[0], COMPARISONS[type(node.ops[0])])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Each arithmetic operator by another; joined texts are left alone."""
        texts = any(
            isinstance(side, (ast.JoinedStr, ast.Constant)) and _is_text(side) for side in (node.left, node.right)
        )
        if type(node.op) in ARITHMETIC and not texts:
            self._other_symbol("arithmetic", node, node.left, node.right, ARITHMETIC[type(node.op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """`and` by `or`, and one operand left out."""
        word = " or " if isinstance(node.op, ast.And) else " and "
        texts = [self._text(value) for value in node.values]
        self._add("connective", node, f"({word.join(f'({text})' for text in texts)})")
        self._add("operand left out", node, f"({texts[0]})")
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        """The value; not `strict` of zip, which asserts like `assert`."""
        if node.arg != "strict":
            self.visit(node.value)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """`not` and minus left out."""
        if isinstance(node.op, (ast.Not, ast.USub)):
            self._add("sign left out", node, f"({self._text(node.operand)})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """A number by its successor, a truth value by the other."""
        if isinstance(node.value, bool):
            self._add("truth value", node, str(not node.value))
        elif isinstance(node.value, int):
            self._add("number", node, f"({node.value + 1})")

    def visit_If(self, node: ast.If) -> None:
        """A condition that always holds, or never."""
        self._add("condition never", node.test, "False")
        self._add("condition always", node.test, "True")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """A choice that always falls the same way."""
        self._add("choice", node, f"({self._text(node.body)})")
        self._add("choice", node, f"({self._text(node.orelse)})")
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        """A filter left out."""
        for test in node.ifs:
            self._add("filter left out", test, "True")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """min and max, any and all; sorted and set left out where they have one argument."""
        if isinstance(node.func, ast.Name):
            if node.func.id in TWINS:
                self._add("twin", node.func, TWINS[node.func.id])
            if node.func.id == "sorted" and len(node.args) == 1 and not node.keywords:
                self._add("order left out", node, f"list({self._text(node.args[0])})")
        self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        """The loop ends instead."""
        self._add("break", node, "break")

    def visit_Break(self, node: ast.Break) -> None:
        """The loop goes on instead."""
        self._add("continue", node, "continue")


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def python_mutants(path: Path, file: str) -> list[Mutant]:
    """All mutants of a Python file; a few are no longer Python, see `is_python`."""
    source = path.read_text()
    finder = Finder(file, source)
    finder.visit(ast.parse(source))
    return told_apart(finder.found)


def is_python(text: str) -> bool:
    """Whether a text is Python."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True
