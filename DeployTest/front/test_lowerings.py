"""Each lowering of an ATen operator means what PyTorch means: ONNX Runtime on the captured model, beside the module."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest

from deployer.core.errors import UnsupportedOperator
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
F = torch.nn.functional
Function = Callable[..., Any]

FORMS: dict[str, tuple[Function, tuple[int, ...]]] = {
    "add with alpha": (lambda x: torch.add(x, x, alpha=0.5), (3, 4)),
    "rsub": (lambda x: 1 - x, (3, 4)),
    "means of uneven parts": (lambda x: F.adaptive_avg_pool2d(x, 3), (1, 2, 5, 7)),
    "reflected": (lambda x: F.pad(x, (1, 2), mode="reflect"), (1, 2, 4)),
    "floor of a quotient": (lambda x: torch.div(x, 0.3, rounding_mode="floor"), (3, 4)),
    "square": (lambda x: x**2, (3, 4)),
    "root": (lambda x: x.abs() ** 0.5, (3, 4)),
    "rsqrt": (lambda x: torch.rsqrt(x * x + 1), (3, 4)),
    "clamp": (lambda x: x.clamp(-0.5, 0.75) + x.clamp(min=0.1) + x.clamp(max=0.2), (3, 4)),
    "maximum": (lambda x: torch.maximum(x, -x) + torch.minimum(x, x * 0.5), (3, 4)),
    "masked_fill": (lambda x: x.masked_fill(torch.eye(4).bool(), 2.0), (4, 4)),
    "masked_fill of infinity": (
        lambda x: x.masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf).softmax(-1),
        (4, 4),
    ),
    "where": (lambda x: torch.where(x > 0, x, -2 * x), (3, 4)),
    "glu": (lambda x: F.glu(x, 1), (3, 8, 2)),
    "hardtanh": (lambda x: F.hardtanh(x) + F.hardtanh(x, -0.2, 0.3), (3, 4)),
    "hardshrink": (lambda x: F.hardshrink(x, 0.4) + F.softshrink(x, 0.3), (5, 7)),
    "softplus": (lambda x: F.softplus(x, beta=2.0), (3, 4)),
    "elu": (lambda x: F.elu(x, 0.7) + F.celu(x, 0.7), (3, 4)),
    "prelu": (lambda x: F.prelu(x, torch.tensor([0.1, 0.2, 0.3])), (2, 3, 4)),
    "matmul of vectors": (lambda x: x @ x[0] + (x[1] @ x.transpose(0, 1)), (4, 4)),
    "matmul of batches": (lambda x: x @ x.transpose(1, 2), (2, 3, 4)),
    "addmm": (lambda x: torch.addmm(x, x, x, beta=0.5, alpha=2.0), (3, 3)),
    "einsum": (lambda x: torch.einsum("bij,bkj->bik", x, x), (2, 3, 4)),
    "attention with addends": (
        lambda x: F.scaled_dot_product_attention(x, x, x, torch.linspace(-2, 2, 25).reshape(5, 5)),
        (2, 2, 5, 4),
    ),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), (2, 2, 5, 4)),
    "attention with a mask": (
        lambda x: F.scaled_dot_product_attention(x, x, x, torch.ones(5, 5).tril().bool()),
        (1, 2, 5, 4),
    ),
    "views": (lambda x: x.flatten(1).unflatten(1, (-1, 2)).unsqueeze(0).squeeze().view(3, -1), (3, 4, 5)),
    "movedim": (lambda x: x.movedim(0, 2).permute(1, 2, 0), (2, 3, 4)),
    "expand and repeat": (lambda x: x.unsqueeze(1).expand(-1, 3, -1).repeat(2, 1, 2), (2, 5)),
    "cat and stack": (lambda x: torch.cat([torch.stack([x, -x], 1)[:, 0], x], -1), (2, 5)),
    "split": (lambda x: x.split(2, 1)[1] + x.chunk(3, 1)[0] + x.split([1, 2, 2], 1)[2], (2, 5)),
    "split of rows": (lambda x: x.split(2)[1] + x.chunk(2)[1], (4, 5)),
    "unbind": (lambda x: x.unbind(1)[2] * x.select(1, -1), (2, 5)),
    "slices": (lambda x: x[:, 1:-1:2] + x[:, -4:-2], (2, 6)),
    "narrow": (lambda x: x.narrow(1, 2, 3), (2, 6)),
    "index": (lambda x: x[:, torch.tensor([2, 0, 2])] + x.index_select(1, torch.tensor([1, 3, 5])), (2, 6)),
    "an element that is set": (lambda x: _set(x), (3, 6)),
    "roll": (lambda x: x.roll((1, -2), (0, 1)) + x.roll(1), (3, 5)),
    "pad": (lambda x: F.pad(x, (1, 2, 0, 1), value=0.5), (2, 3)),
    "shuffles": (lambda x: F.channel_shuffle(F.pixel_shuffle(x, 2), 2), (1, 16, 3, 3)),
    "mean": (lambda x: x.mean((0, 2), keepdim=True) + x.sum(1, keepdim=True) + x.amax(0), (2, 3, 4)),
    "variance": (lambda x: x.var(1) + x.std(1, correction=0), (3, 7)),
    "norm": (lambda x: x.norm(dim=1) + x.norm(1, dim=1), (3, 7)),
    "logsumexp": (lambda x: x.logsumexp(1), (3, 7)),
    "circular functions": (lambda x: x.tan() + x.tanh().asin() + x.tanh().acos() + x.atan(), (3, 5)),
    "hyperbolic functions": (lambda x: x.sinh() + x.cosh().acosh() + x.asinh() + (x / 9).atanh(), (3, 5)),
    "product": (lambda x: x.prod(1) + x.prod(0, keepdim=True)[:, :1], (4, 5)),
    "gather": (lambda x: x.gather(1, torch.tensor([[2, 0, 2], [1, 4, 3]])), (3, 5)),
    "scatter": (lambda x: _scattered(x), (3, 5)),
    "top k": (lambda x: x.topk(3, 1)[0] + x.topk(3, 1, largest=False)[0] + x.sort(1)[0][:, 1:4], (4, 7)),
    "taken by rank": (lambda x: x.gather(1, x.topk(2, 1)[1]) + x.gather(1, x.argmin(1, keepdim=True)), (4, 7)),
    "extremes": (lambda x: x.max(1)[0] * x.max() + x.min(1)[0] + torch.max(x, -x)[:, 0], (4, 7)),
    "running sum": (lambda x: x.cumsum(1) + x.cumsum(-2), (4, 7)),
    "conv same": (lambda x: F.conv2d(x, torch.ones(2, 3, 2, 3), padding="same"), (1, 3, 5, 5)),
    "conv dilated": (lambda x: F.conv1d(x, torch.ones(2, 1, 3), dilation=2, groups=2), (1, 2, 9)),
    "conv transposed": (lambda x: F.conv_transpose2d(x, torch.ones(2, 3, 3, 3), None, 2, 1, 1), (1, 2, 4, 4)),
    "max pool": (lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), (1, 2, 8, 8)),
    "mean pool": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (1, 2, 7, 7)),
    "pools without batch": (lambda x: F.max_pool1d(x, 2) + F.avg_pool1d(x, 2), (2, 8)),
    "adaptive": (lambda x: F.adaptive_avg_pool2d(x, 2) * F.adaptive_max_pool2d(x, 1), (1, 2, 6, 6)),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), (1, 2, 3, 4)),
    "bilinear": (lambda x: F.interpolate(x, (7, 5), mode="bilinear"), (1, 2, 4, 6)),
    "bilinear by corners": (lambda x: F.interpolate(x, (7, 9), mode="bilinear", align_corners=True), (1, 2, 4, 6)),
    "linear": (lambda x: F.interpolate(x, scale_factor=1.5, mode="linear"), (1, 2, 6)),
    "linear by no whole factor": (lambda x: F.interpolate(x, scale_factor=1.4, mode="linear"), (1, 2, 5)),
    "linear by corners and factor": (
        lambda x: F.interpolate(x, scale_factor=1.5, mode="linear", align_corners=True),
        (1, 2, 5),
    ),
    "trilinear": (lambda x: F.interpolate(x, (3, 5, 2), mode="trilinear"), (1, 2, 2, 3, 4)),
    "bicubic": (lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), (1, 1, 4, 5)),
    "nearest by sizes": (lambda x: F.interpolate(x, (5, 3)), (1, 2, 3, 4)),
    "layer norm": (lambda x: F.layer_norm(x, (3, 4)), (2, 3, 4)),
    "group norm": (lambda x: F.group_norm(x, 2), (2, 4, 5)),
    "rms norm": (lambda x: F.rms_norm(x, (4,)), (3, 4)),
    "rms norm of planes": (lambda x: F.rms_norm(x, (3, 4), torch.ones(3, 4) * 0.5, 0.01), (2, 3, 4)),
    "response norm": (lambda x: F.local_response_norm(x, 3), (2, 5, 4, 4)),
}


def _set(x: Any) -> Any:
    """A copy of x with a column and a run of another replaced."""
    y = x.clone()
    y[:, 1] = 2.0 * x[:, 0]
    y[0, 2:4] = x[1, 2:4]
    return y


def _scattered(x: Any) -> Any:
    """Elements that are replaced, and terms that are added to equal places."""
    ids = torch.tensor([[2, 0, 1], [1, 4, 3]])
    return x.scatter(1, ids, -x) + x.scatter_add(1, ids * 0, x) + x.scatter(1, ids, 0.5)


class Module(torch.nn.Module):  # type: ignore[name-defined,misc]
    """A function of one tensor."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


@pytest.mark.parametrize("form", FORMS)
def test_form(form: str) -> None:
    """The captured model's result is the module's."""
    function, shape = FORMS[form]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(len(form)))
    captured = front.capture(Module(function), [x])
    session = onnxruntime.InferenceSession(captured.model.SerializeToString(), providers=["CPUExecutionProvider"])
    [computed] = session.run(None, {captured.inputs[0]: x.numpy()})
    expected = function(x).numpy()
    assert computed.shape == expected.shape
    assert np.allclose(computed, expected, **table()["several"]["float32"])


@pytest.mark.parametrize(
    ("function", "shape", "word"),
    [
        (lambda x: F.interpolate(x, (2, 2), mode="bilinear", antialias=True), (1, 1, 4, 4), "upsample_bilinear2d_aa"),
    ],
)
def test_refused(function: Function, shape: tuple[int, ...], word: str) -> None:
    """A function without a lowering, or without one for this form, is refused by name."""
    with pytest.raises(UnsupportedOperator) as caught:
        front.capture(Module(function), [torch.ones(shape)])
    assert word in str(caught.value)
