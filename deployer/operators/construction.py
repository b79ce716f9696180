"""Nodes that stand for one of another operator, appended one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from deployer.core.ir import AttrValue, Node


@dataclass
class Construction:
    """Nodes under construction; a value in between has the name of its node, which begins with `prefix`."""

    prefix: str
    nodes: list[Node] = field(default_factory=list, kw_only=True)

    def several(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attrs: AttrValue) -> None:
        """Append a node with these outputs."""
        name = f"{self.prefix}/{op.lower()}{len(self.nodes)}"
        self.nodes.append(Node(name, op, tuple(inputs), tuple(outputs), attrs))

    def emit(self, op: str, inputs: Sequence[str], output: str = "", **attrs: AttrValue) -> str:
        """Append a node; returns its output."""
        output = output or f"{self.prefix}/{op.lower()}{len(self.nodes)}"
        self.several(op, inputs, (output,), **attrs)
        return output

    def number(self, value: float) -> str:
        """Append a constant; returns its name."""
        return self.emit("Constant", (), value_float=value)
