"""NormScale: what scales gradients with the squared norm x so that the norm is at most `limit`."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deployer.core.access import Access
from deployer.core.files.roles import Limiter
from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import ArgValue, Array, Const, Extent, Kernel, Sample, Work, register, rng, unsupported
from deployer.operators.elementwise import Flat
from deployer.operators.inputs import arrays, floats, normal

MARGIN = 1e-6
"""PyTorch's clip_grad_norm_ and ONNX Runtime's InplaceClipGradNorm add it to the norm, so that none of zero divides."""


@register
class NormScale(Flat):
    """min(1, limit / (sqrt(x) + MARGIN)); attribute `limit`."""

    name = "NormScale"
    custom = Form((1, 1), (1, 1), {"limit": "FLOAT"}, frozenset({"limit"}))
    kernel = Kernel(
        "norm_scale_f32",
        pointers=(("x", "float32", False), ("y", "float32", True)),
        scalars=(("n", "u32"), ("limit", "f32"), ("margin", "f32")),
    )
    limiter = Limiter("InplaceClipGradNorm", Form((1, 1), (1, 1), {"max_norm": "FLOAT"}), "max_norm", 1.0)
    no_gradient = "it belongs to an update"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X; the limit is positive."""
        if not _limit(node) > 0:
            raise unsupported(node, f"limit is {_limit(node):g}", "a limit above 0")
        return (floats(node, inputs, 1)[0],)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """limit / (sqrt(x) + MARGIN), at most 1."""
        x = arrays(inputs, 1)[0]
        limit, margin = (x.dtype.type(number) for number in (_limit(node), np.float32(MARGIN)))
        return (np.asarray(np.minimum(limit / (np.sqrt(x) + margin), x.dtype.type(1))),)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length, the limit and the margin."""
        return {"n": Extent("n"), "limit": Const(_limit(node)), "margin": Const(MARGIN)}

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """A root and a quotient per element."""
        return Work(macs=0, elements=2 * tile["n"], parallel=tile["n"])

    def samples(self) -> Iterator[Sample]:
        """Norms on both sides of the limit."""
        yield Sample("vector", (np.square(normal(rng(52), 37)),), {"limit": 0.5}, onnx=False)
        yield Sample("zero", (np.zeros((), np.float32),), {"limit": 0.25}, onnx=False)


def _limit(node: Node) -> float:
    return float(np.float32(node.attr_float("limit", 0.0)))
