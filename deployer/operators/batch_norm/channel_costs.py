"""The cost of the steps of batch normalization, and the layers on which it is measured."""

import math
from collections.abc import Iterator, Mapping

from deployer.core.access import Access
from deployer.core.ir import Node
from deployer.core.kernel_facts import FACTS, measured
from deployer.core.operator import Array, Sample, Work, rng
from deployer.operators.batch_norm.channels import Channelwise
from deployer.operators.carry import result_count
from deployer.operators.inputs import normal

CHANNELS, ELEMENTS, IMAGES, FEW = "channels", "elements", "images", "few"
"""Forms: whole channels or elements dealt out; sums over images or a part of one; channels for half of the cores."""


class Step(Channelwise):
    """A channelwise step whose kernel runs along the elements of one image's channel."""

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """A multiply-accumulate per element and one more operation per run of them.

        Cores take whole channels, except that where nothing is summed and channels cannot be dealt out evenly, each
        takes as many elements, from its own place on. A sum over images, or a part of one, has code of its own; where
        channels are few, cores do not share what computes.
        """
        count = math.prod(tile.values())
        runs = count // tile["s"]
        if not self.sums:
            if tile["n"] == 1 and tile["c"] % FACTS.dealt == 0:
                return Work(count, runs, tile["c"], CHANNELS)
            return Work(count, runs + FACTS.dealt, count, ELEMENTS)
        part = any(tile[d] < access.dim(d).size for d in self.sums.dims)
        if part and self.sums.blocks(access):
            runs += runs * FACTS.unfinished
        form = IMAGES if part or tile["n"] > 1 else FEW if 2 * tile["c"] <= FACTS.dealt else ""
        return Work(count, runs, tile["c"], form)

    def sweep(self) -> Iterator[Sample]:
        """Layers of small networks, and parts of them."""
        r = rng(72)
        for shape in measured("channels"):
            inputs: list[Array] = [
                normal(r, *(shape if i < self.wide else shape[1:2])) for i in range(self.input_count())
            ]
            yield Sample("x".join(map(str, shape)), tuple(inputs), outputs=result_count(self.kernel), onnx=False)
