"""QuickGeluGrad: the gradient of X under QuickGelu."""

from collections.abc import Iterator

from deployer.core.forms import Form
from deployer.core.operator import Sample, register, rng
from deployer.operators.inputs import normal
from deployer.operators.smooth.quick_gelu import Quick


@register
class QuickGeluGrad(Quick):
    """Elementwise over dY and X."""

    name = "QuickGeluGrad"
    custom = Form((2, 2), (1, 1), {"alpha": "FLOAT"})
    of = "SwishGrad"

    def samples(self) -> Iterator[Sample]:
        """By default, and with alpha 1."""
        r = rng(134)
        yield Sample("vector", (normal(r, 37), normal(r, 37)), onnx=False)
        yield Sample("one", (normal(r, 5, 7), normal(r, 5, 7)), {"alpha": 1.0}, onnx=False)
