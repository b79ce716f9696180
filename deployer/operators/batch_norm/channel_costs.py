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


class Step(Channelwise):
    """A channelwise step whose kernel runs along the elements of one image's channel."""

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """A multiply-accumulate per element and one more operation per run; channels share a sum, elements the rest."""
        count = math.prod(tile.values())
        runs = count // tile["s"]
        if self.sums and self.sums.blocks(access) and any(tile[d] < access.dim(d).size for d in self.sums.dims):
            runs += runs * FACTS.unfinished
        return Work(count, runs, tile["c"] if self.sums else count)

    def sweep(self) -> Iterator[Sample]:
        """Layers of small networks, and parts of them."""
        r = rng(72)
        for shape in measured("channels"):
            inputs: list[Array] = [
                normal(r, *(shape if i < self.wide else shape[1:2])) for i in range(self.input_count())
            ]
            yield Sample("x".join(map(str, shape)), tuple(inputs), outputs=result_count(self.kernel), onnx=False)
