"""RMSNorm: Y = X scale / sqrt(mean(X X) + eps), the name that exporters of microcontroller compilers give it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, register, registry, rng, unsupported
from deployer.operators.inputs import normal

NAMES = ("eps", "epsilon")
"""Names of the attribute that is added to the mean."""


@register
class RMSNorm(Operator):
    """RMSNormalization, whose epsilon has two names here and no default that all exporters share."""

    name = "RMSNorm"
    custom = Form((2, 2), (1, 1), {"axis": "INT", "stash_type": "INT", **dict.fromkeys(NAMES, "FLOAT")})
    domain = ""
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        given = [name for name in NAMES if name in node.attrs]
        if len(given) != 1:
            why = (
                "both eps and epsilon"
                if given
                else "neither eps nor epsilon, for which exporters have several defaults"
            )
            raise unsupported(node, f"it has {why}", "one of eps and epsilon")
        return registry()["RMSNormalization"].infer(_plain(node), inputs)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """That of RMSNormalization."""
        return registry()["RMSNormalization"].reference(_plain(node), inputs)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """RMSNormalization."""
        return [_plain(node)]

    def samples(self) -> Iterator[Sample]:
        """Both names, and axes in the middle."""
        r = rng(142)
        yield Sample("eps", (normal(r, 7, 5), normal(r, 5)), {"eps": 0.01}, onnx=False)
        yield Sample("epsilon", (normal(r, 2, 3, 4), normal(r, 3, 4)), {"epsilon": 0.25, "axis": 1}, onnx=False)


def _plain(node: Node) -> Node:
    """The node of the operator that ONNX has."""
    attrs: dict[str, AttrValue] = {name: value for name, value in node.attrs.items() if name not in NAMES}
    attrs["epsilon"] = next(node.attrs[name] for name in NAMES if name in node.attrs)
    return replace(node, op="RMSNormalization", attrs=attrs)
