"""Identity: Y = X, without a copy."""

from collections.abc import Iterator

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Sample, register, rng
from deployer.operators.inputs import normal
from deployer.operators.view import View


@register
class Identity(View):
    """The input under another name."""

    name = "Identity"
    versions = (1, 13, 14, 16, 19, 21, 23, 24, 25)

    def shape(self, node: Node, x: TensorType) -> tuple[int, ...]:
        """The input's."""
        return x.shape

    def samples(self) -> Iterator[Sample]:
        """A matrix and a scalar."""
        r = rng(20)
        yield Sample("matrix", (normal(r, 3, 4),))
        yield Sample("scalar", (normal(r),))
