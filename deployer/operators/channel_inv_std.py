"""ChannelInvStd: one over the root of a channel's biased variance plus epsilon; a step of batch normalization."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from deployer.access import Access
from deployer.channels import Step
from deployer.inputs import normal
from deployer.ir import Node
from deployer.normalization import Variance
from deployer.operator import Sample, Work, register, rng


@register
class ChannelInvStd(Step, Variance):
    """X[N, C, ...] and the means of its channels to inv_std[C]."""

    name = "ChannelInvStd"
    inverse = True

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """As that of the variance, in a form of its own: roots and divisions of channels may share one unit."""
        return replace(super().work(node, access, tile), elements=tile["c"], form="inverse")

    def samples(self) -> Iterator[Sample]:
        """A batch, one image, and rows."""
        r = rng(65)
        for label, shape in {"batch": (3, 5, 4, 3), "image": (1, 5, 4, 6), "rows": (7, 3)}.items():
            yield Sample(label, (normal(r, *shape), normal(r, shape[1])), {"epsilon": 0.01}, onnx=False)
