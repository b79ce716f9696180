"""UpdateCount: n' = n + 1, in place: the number of the update that runs, which optimizers with corrections read."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Dim, Operand
from deployer.core.declarations import Counter, State
from deployer.core.ir import Node, TensorType
from deployer.core.operator import ArgValue, Array, Extent, Kernel, Operator, Sample, Work, register, unsupported
from deployer.operators.inputs import arrays, operands


@register
class UpdateCount(Operator):
    """The front end puts it before the optimizers; a file has none."""

    name = "UpdateCount"
    counter = Counter(State("step"))
    kernel = Kernel("update_count_i32", pointers=(("count", "int32", True),), scalars=(("n", "u32"),))
    inplace: ClassVar[dict[int, int]] = {0: 0}
    no_gradient = "it is a part of an optimizer"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of the count, which is of integers."""
        (count,) = operands(node, inputs, 1)
        if count.dtype != "int32":
            raise unsupported(node, f"the count is {count}", "an integer")
        return (count,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """One more."""
        (count,) = arrays(inputs, 1)
        return (np.asarray(count + count.dtype.type(1)),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One flat parallel dim."""
        size = types[node.inputs[0]].size
        return Access((Dim("n", size),), (Operand("count", node.inputs[0], "inout", (size,), (At("n"),)),))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length."""
        return {"n": Extent("n")}

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """One operation per element."""
        return Work(macs=0, elements=tile["n"], parallel=tile["n"])

    def samples(self) -> Iterator[Sample]:
        """Before the first update, and later."""
        yield Sample("first", (np.array([0], np.int32),), onnx=False)
        yield Sample("later", (np.array([7, 1000, -1], np.int32),), onnx=False)
