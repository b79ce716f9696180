"""ChannelVariance: the biased variance of each channel; a step of batch normalization."""

from collections.abc import Iterator

from deployer.channels import Step
from deployer.inputs import normal
from deployer.normalization import Variance
from deployer.operator import Sample, register, rng


@register
class ChannelVariance(Step, Variance):
    """X[N, C, ...] and the means of its channels to var[C]."""

    name = "ChannelVariance"

    def samples(self) -> Iterator[Sample]:
        """A batch, and one image."""
        r = rng(66)
        for label, shape in {"batch": (3, 5, 4, 3), "image": (1, 5, 4, 6)}.items():
            yield Sample(label, (normal(r, *shape), normal(r, shape[1])), onnx=False)
