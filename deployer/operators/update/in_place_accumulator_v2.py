"""InPlaceAccumulatorV2: buffer = flag ? grad : buffer + grad; the flag is the pass's lazy-reset input."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access
from deployer.core.declarations import Accumulator
from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import ArgValue, Array, Extent, Flag, Kernel, Sample, mismatch, register, rng
from deployer.operators.elementwise import Flat
from deployer.operators.inputs import arrays, normal, operands


@register
class InPlaceAccumulatorV2(Flat):
    """The output overwrites the buffer; exporters declare it as a bool flag, which is not believed."""

    name = "InPlaceAccumulatorV2"
    custom = Form((3, 3), (0, 1))
    accumulator = Accumulator(usual=True)
    kernel = Kernel(
        "accumulate_f32",
        pointers=(("buffer", "float32", True), ("grad", "float32", False)),
        scalars=(("n", "u32"), ("fresh", "u32")),
    )
    inplace: ClassVar[dict[int, int]] = {0: 0}
    no_gradient = "it belongs to a backward pass"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The buffer's type; the gradient has as many elements, the flag one."""
        buffer, grad, flag = operands(node, inputs, 3)
        if grad.dtype != buffer.dtype or grad.size != buffer.size:
            raise mismatch(node, "buffer and gradient differ in type", inputs)
        if flag.size != 1:
            raise mismatch(node, "the reset flag has more than one element", inputs)
        return (buffer,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """flag ? grad : buffer + grad."""
        buffer, grad, flag = arrays(inputs, 3)
        grad = grad.reshape(buffer.shape)
        return (grad.copy() if np.any(flag) else np.asarray(buffer + grad),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One flat parallel dim; the buffer's old content is not read in a pass with the flag set."""
        flat = super().access(node, types)
        buffer, *rest = flat.operands
        return replace(flat, operands=(replace(buffer, fresh_on_flag=True), *rest))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length and the flag of the running pass."""
        return {"n": Extent("n"), "fresh": Flag()}

    def samples(self) -> Iterator[Sample]:
        """Both values of the flag."""
        r = rng(13)
        for flag in (0, 1):
            inputs = (normal(r, 5, 7), normal(r, 5, 7), np.array([flag], np.int32))
            yield Sample(f"flag{flag}", inputs, onnx=False)
