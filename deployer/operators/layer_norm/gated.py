"""Steps of layer normalization whose result may be gated by their own X, where that is Y of a Relu."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from deployer.core.access import Access
from deployer.core.ir import Node
from deployer.core.operator import ArgValue, Array, Sample
from deployer.operators.finishing import GATE, GATED, own_args, own_gate
from deployer.operators.layer_norm.rows_by_columns import Layerwise

X = 1


class GatedByX(Layerwise):
    """A step from dY and X to dX. Fusion sets the attribute `gated` where the gradient of the Relu follows."""

    own: ClassVar[Mapping[str, tuple[int, str]]] = {GATE: (X, GATED)}

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The formula, then the fused gate."""
        (dx,), x = super().reference(node, inputs), inputs[X]
        assert x is not None
        return (own_gate(node, dx, x),)

    def more_args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Whether the result is gated by X."""
        return own_args(node)

    def samples(self) -> Iterator[Sample]:
        """Each form, without and with a gate."""
        for sample in super().samples():
            yield sample
            yield replace(sample, label=f"{sample.label}_gated", attrs={**sample.attrs, GATED: 1})
