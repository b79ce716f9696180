"""One error with everything that a model uses and the compiler does not support."""

import difflib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from deployer.core.errors import UnsupportedOperator
from deployer.core.ir import Node
from deployer.core.operator import registry
from deployer.operators.base.unsupported import ABSENT
from deployer.operators.control import controls

ONNX = ("", "ai.onnx", "ai.onnx.preview.training")
"""Domains whose operators ONNX defines."""
SHOWN = 8
"""So many nodes of a kind are named."""


@dataclass
class Refusals:
    """Refused nodes, each with its error, and the values that have no type for this reason."""

    found: list[tuple[Node, UnsupportedOperator]] = field(default_factory=list)
    untyped: set[str] = field(default_factory=set)

    @contextmanager
    def of(self, node: Node) -> Iterator[None]:
        """Note that the node is refused, instead of raising the error."""
        try:
            yield
        except UnsupportedOperator as error:
            self.found.append((node, error))
            self.untyped.update(filter(None, node.outputs))

    def passes(self, node: Node) -> bool:
        """Whether the node reads what has no type, so that its form cannot be judged; its operator is."""
        if self.untyped.isdisjoint(node.inputs):
            return False
        if node.op not in registry() and node.op not in controls():
            self.found.append((node, absent(node)))
        self.untyped.update(filter(None, node.outputs))
        return True

    def check(self) -> None:
        """Raise the only error, or one that lists the nodes of each kind with the nearest supported form."""
        if not self.found:
            return
        if len(self.found) == 1:
            raise self.found[0][1]
        kinds: dict[tuple[str, str, str], list[str]] = {}
        for node, error in self.found:
            reason = error.reason or error.cause
            kinds.setdefault((node.op, reason, error.hint), []).append(node.name)
        facts = [(op, _line(reason, hint, names)) for (op, reason, hint), names in kinds.items()]
        cause = f"{len(self.found)} nodes of the model are not supported, of {len(kinds)} kinds"
        raise UnsupportedOperator(cause, facts, "other nodes in the model, or operators in a package of your own")


def _line(reason: str, hint: str, names: Collection[str]) -> str:
    shown = ", ".join(repr(name) for name in list(names)[:SHOWN])
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    count = f"{len(names)} node{'s' if len(names) > 1 else ''}"
    return f"{count}, {shown}{more}: {reason}; {hint}"


def absent(node: Node, domain: str = "") -> UnsupportedOperator:
    """The error for an operator that is not there; it names the nearest that a file may hold, if any is near."""
    facts = [("domain", domain or "default"), ("inputs", ", ".join(node.inputs) or "none")]
    if node.op in ABSENT and domain in ONNX:
        reason, hint = ABSENT[node.op]
        return UnsupportedOperator(f"node {node.name!r} ({node.op}): {reason}", facts, hint, reason)
    operators = [name for name, operator in registry().items() if operator.versions or operator.custom is not None]
    names = {name.lower(): name for name in operators}
    near = [names[text] for text in difflib.get_close_matches(node.op.lower(), list(names), 3)]
    reason = "there is no such operator"
    hint = f"the nearest here: {', '.join(near)}" if near else "`deployer operators` lists those that there are"
    return UnsupportedOperator(f"node {node.name!r} ({node.op}): {reason}", facts, hint, reason)
