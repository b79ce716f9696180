"""IntegerWrap: integers as those of fewer bits have them: what overflows the type wraps."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.access import Access
from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.kernel_facts import measured
from deployer.core.operator import ArgValue, Array, Const, Kernel, Sample, register, rng, unsupported
from deployer.operators.elementwise import Flat
from deployer.operators.inputs import arrays, operands

SIZES = (8, 16)


@register
class IntegerWrap(Flat):
    """Of `bits` bits, from 0 on unless `signed` is 1."""

    name = "IntegerWrap"
    custom = Form((1, 1), (1, 1), {"bits": "INT", "signed": "INT"})
    flags = ("signed",)
    wraps = True
    kernel = Kernel(
        "integer_wrap_i32",
        pointers=(("x", "int32", False), ("y", "int32", True)),
        scalars=(("n", "u32"), ("bits", "u32"), ("is_signed", "u32")),
    )
    no_gradient = "integers have none"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x = operands(node, inputs, 1)[0]
        if x.dtype != "int32" or node.attr_int("bits", 0) not in SIZES:
            raise unsupported(node, f"{x} has {node.attr_int('bits', 0)} bits", "integers of 8 or 16 bits")
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's astype."""
        x = arrays(inputs, 1)[0]
        kind = f"{'' if node.attr_int('signed', 0) else 'u'}int{node.attr_int('bits', 0)}"
        return (x.astype(kind).astype(x.dtype),)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length, the bits, the sign."""
        own = {"bits": Const(node.attr_int("bits", 0)), "is_signed": Const(node.attr_int("signed", 0))}
        return super().args(node, access) | own

    def samples(self) -> Iterator[Sample]:
        """Both sizes, with a sign and without, and numbers on both sides of the borders."""
        x = np.array([0, 1, 127, 128, 255, 256, 257, 32767, 32768, 65535, 65536, 1 << 30], np.int32)
        for bits in SIZES:
            for signed in (0, 1):
                attrs = {"bits": bits, "signed": signed}
                yield Sample(f"{bits}_{signed}", (np.concatenate([x, -x - 1]),), dict(attrs), onnx=False)

    def sweep(self) -> Iterator[Sample]:
        """Vectors."""
        for (size,) in measured("vectors"):
            x = np.asarray(rng(173).integers(-999, 999, size), np.int32)
            yield Sample(f"n{size}", (x,), {"bits": 8, "signed": 1}, onnx=False)
