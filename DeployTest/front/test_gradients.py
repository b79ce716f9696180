"""Modules that stop, scale or replace gradients, or write buffers: trained as by PyTorch, or refused by name."""

import copy
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
nn, F = torch.nn, torch.nn.functional
checkpoint = importlib.import_module("torch.utils.checkpoint").checkpoint
parametrize = importlib.import_module("torch.nn.utils.parametrize")
parametrizations = importlib.import_module("torch.nn.utils.parametrizations")

ROWS, WIDTH, CLASSES, STEPS = 4, 6, 3, 3


def batches(seed: int = 3) -> tuple[Any, Any]:
    """Rows that repeat some numbers, among them zeros, and labels."""
    x = torch.randn((ROWS * STEPS, WIDTH), generator=torch.Generator().manual_seed(seed))
    x[::3, 1] = 0
    return x, torch.arange(ROWS * STEPS) % CLASSES


def trained_by_pytorch(module: Any, x: Any, y: Any, rate: float = 0.1) -> list[float]:
    """The losses of STEPS updates, which change the module."""
    optimizer, losses = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], rate), []
    for step in range(STEPS):
        rows = slice(step * ROWS, (step + 1) * ROWS)
        optimizer.zero_grad()
        loss = F.cross_entropy(module(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def assert_alike(build: Callable[[], Any], x: Any, y: Any) -> None:
    """Losses, parameters and buffers of a module that we train are those of one that PyTorch trains."""
    torch.manual_seed(1)
    ours = build()
    torch.manual_seed(1)
    theirs = build()  # made anew: a deep copy loses hooks
    before = {n: p.detach().clone() for n, p in ours.named_parameters()}
    buffers = {n: b.detach().clone() for n, b in ours.named_buffers()}
    trained = front.train(ours, (x, y), "cross_entropy", lr=0.1, batch_size=ROWS, shuffle=False, warn=lambda w: None)
    assert trained.verdict == "passed"
    losses = trained_by_pytorch(theirs, x, y)
    limits = table()["front"]
    assert np.allclose(trained.losses, losses, rtol=0, atol=limits["loss"]), (trained.losses, losses)
    for (name, a), b in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
        moved = float((b.double() - (before | buffers)[name].double()).abs().max()) if name in before | buffers else 0.0
        assert float((a.double() - b.double()).abs().max()) <= max(moved, 0.01) * limits["movement"], name


class Net(nn.Module):
    """Two layers, and between them what a case does to the hidden values."""

    def __init__(self, middle: Callable[[Any, Any], Any], prepare: Callable[[Any], Any] = lambda net: None) -> None:
        super().__init__()
        self.first, self.extra, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.middle = middle
        prepare(self)

    def forward(self, x: Any) -> Any:
        return self.last(self.middle(self, self.first(x)))


class Reverse(torch.autograd.Function):
    """The identity, with the gradient's sign and scale changed."""

    @staticmethod
    def forward(ctx: Any, x: Any, scale: float) -> Any:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return -ctx.scale * g, None


class Stepped(torch.autograd.Function):
    """A step with the gradient of a line, and a result without one."""

    @staticmethod
    def forward(x: Any) -> Any:
        return (x > 0).float(), x * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, g: Any, unused: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * (x.abs() < 1)


def within(manager: Callable[[], Any]) -> Callable[[Any, Any], Any]:
    """The extra layer under a context manager, beside the hidden values."""

    def middle(net: Any, h: Any) -> Any:
        with manager():
            stopped = net.extra(h)
        return h + torch.tanh(stopped)

    return middle


def decorated(net: Any, h: Any) -> Any:
    """The extra layer in a function that is decorated."""

    @torch.no_grad()
    def extra(x: Any) -> Any:
        return net.extra(x)

    return h + extra(h)


def hooked(register: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A hook on the hidden values themselves."""

    def middle(net: Any, h: Any) -> Any:
        z = net.extra(h)
        register(z, lambda g: g * 0.25)
        return torch.relu(z)

    return middle


def halved(net: Any, inputs: Any, outputs: Any = None) -> Any:
    """Half of the output, as a forward hook on a module returns it."""
    values = inputs if outputs is None else outputs
    return tuple(v * 0.5 for v in values) if isinstance(values, tuple) else values * 0.5


def frozen(net: Any) -> None:
    """The extra layer does not train."""
    net.extra.requires_grad_(False)


def clipped(parameter: Any) -> None:
    """A hook behind the accumulation."""
    parameter.grad = parameter.grad.clamp(-0.01, 0.01)


def plain(net: Any, h: Any) -> Any:
    """The extra layer."""
    return torch.tanh(net.extra(h))


STOPPED: dict[str, Callable[[], Any]] = {
    "no_grad": lambda: Net(within(torch.no_grad), frozen),
    "no_grad_trained": lambda: Net(lambda net, h: within(torch.no_grad)(net, h) + 0.1 * net.extra(h)),
    "inference_mode_clone": lambda: Net(within(lambda: torch.set_grad_enabled(False)), frozen),
    "decorator": lambda: Net(lambda net, h: decorated(net, h) + net.extra(h.detach())),
    "set_grad_enabled": lambda: Net(within(lambda: torch.set_grad_enabled(False)), frozen),
    "enable_grad_inside": lambda: Net(
        lambda net, h: torch.no_grad()(torch.enable_grad()(lambda: h + torch.tanh(net.extra(h))))()
    ),
    "detach": lambda: Net(lambda net, h: h * torch.sigmoid(net.extra(h)).detach() + net.extra(h)),
    "data": lambda: Net(lambda net, h: h * torch.sigmoid(net.extra(h)).data + net.extra(h)),
    "requires_grad": lambda: Net(plain, frozen),
    "reversal": lambda: Net(lambda net, h: net.extra(Reverse.apply(h, 0.5))),
    "custom_backward": lambda: Net(lambda net, h: stepped(net.extra(h))),
    "straight_through": lambda: Net(lambda net, h: h + (torch.round(net.extra(h)) - h).detach() + net.extra(h)),
    "tensor_hook": lambda: Net(hooked(lambda z, hook: z.register_hook(hook))),
    "two_tensor_hooks": lambda: Net(
        hooked(lambda z, hook: (z.register_hook(hook), z.register_hook(lambda g: g.clamp(-0.01, 0.01))))
    ),
    "prehook_of_a_node": lambda: Net(hooked(lambda z, hook: z.grad_fn.register_prehook(lambda gs: (hook(gs[0]),)))),
    "hook_of_a_node": lambda: Net(
        hooked(lambda z, hook: z.grad_fn.register_hook(doubled))
    ),
    "forward_hook": lambda: Net(plain, lambda net: net.extra.register_forward_hook(halved)),
    "forward_pre_hook": lambda: Net(plain, lambda net: net.extra.register_forward_pre_hook(halved)),
    "full_backward_hook": lambda: Net(plain, lambda net: net.extra.register_full_backward_hook(halved_back)),
    "full_backward_pre_hook": lambda: Net(plain, lambda net: net.extra.register_full_backward_pre_hook(halved)),
    "parameter_hook": lambda: Net(plain, lambda net: net.extra.weight.register_hook(lambda g: g * 0.1)),
    "post_accumulate_hook": lambda: Net(
        plain, lambda net: net.extra.weight.register_post_accumulate_grad_hook(clipped)
    ),
    "saved_tensors_hooks": lambda: Net(
        within(lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t))
    ),
    "checkpoint": lambda: Net(lambda net, h: checkpoint(lambda t: torch.tanh(net.extra(t)), h, use_reentrant=False)),
    "gumbel_hard": lambda: Net(lambda net, h: torch.zeros_like(h).scatter(1, h.argmax(1, keepdim=True), 1.0)
                               - F.softmax(h, 1).detach() + F.softmax(net.extra(h), 1)),
    "autograd_grad": lambda: Net(
        lambda net, h: h + torch.autograd.grad(torch.tanh(net.extra(h)).square().sum(), h, create_graph=True)[0]
    ),
    "func_grad": lambda: Net(lambda net, h: h + torch.func.grad(lambda t: torch.tanh(net.extra(t)).sum())(h)),
    "vmap": lambda: Net(lambda net, h: torch.func.vmap(lambda row: torch.tanh(net.extra(row)))(h)),
    "relu6": lambda: Net(lambda net, h: F.relu6(6 * torch.round(net.extra(h)))),
    "hardtanh": lambda: Net(lambda net, h: F.hardtanh(torch.round(2 * net.extra(h)))),
    "parameter_in_a_list": lambda: Net(
        lambda net, h: h @ net.listed[0] + net.listed[1],
        lambda net: setattr(net, "listed", [net.extra.weight, net.extra.bias]),
    ),
    "weight_norm": lambda: Net(plain, lambda net: parametrizations.weight_norm(net.extra)),
    "spectral_norm": lambda: Net(plain, lambda net: parametrizations.spectral_norm(net.extra)),
    "orthogonal": lambda: Net(plain, lambda net: parametrize.register_parametrization(net.extra, "weight", Tied())),
}  # fmt: skip


def stepped(h: Any) -> Any:
    """Both results of the step."""
    step, line = Stepped.apply(h)
    return step + 0.1 * line


def doubled(into: Any, out: Any) -> Any:
    """Twice the gradient, as a hook on a node of autograd returns it."""
    return tuple(g if g is None else 2 * g for g in into)


def halved_back(module: Any, into: Any, out: Any) -> Any:
    """Scaled gradients, as a backward hook on a module returns them."""
    return halved(module, into)


class Tied(nn.Module):
    """A matrix that is symmetric."""

    def forward(self, w: Any) -> Any:
        return w.triu() + w.triu(1).transpose(-1, -2)


@pytest.mark.parametrize("name", STOPPED)
def test_gradients_are_pytorch_s(name: str) -> None:
    """Each public way to stop, scale or replace a gradient."""
    assert_alike(STOPPED[name], *batches())


def kept(write: Callable[[Any, Any], Any], start: Any = None) -> Callable[[], Any]:
    """A net that adds a buffer to its hidden values after writing it."""

    def middle(net: Any, h: Any) -> Any:
        write(net, h)
        return torch.tanh(net.extra(h)) + net.kept.float().reshape(-1).mean() * 0.1

    initial = torch.full((WIDTH,), 0.5) if start is None else start
    return lambda: Net(middle, lambda net: net.register_buffer("kept", initial.clone()))


def rebound(net: Any, h: Any) -> None:
    """Another tensor in the buffer's place."""
    net.kept = 0.9 * net.kept + 0.1 * h.detach().mean(0)


def assigned(net: Any, h: Any) -> None:
    """Elements of the buffer."""
    net.kept[1:3] = h.detach().mean(0)[1:3]


def assigned_by_ids(net: Any, h: Any) -> None:
    """Elements of the buffer by numbers."""
    net.kept[torch.tensor([0, 4])] = h.detach().mean(0)[:2]


def conditional(net: Any, h: Any) -> None:
    """The first pass sets it, later ones move it."""
    fresh = torch.where(net.seen > 0, 0.5 * net.kept + 0.5 * h.detach().mean(0), h.detach().mean(0))
    net.kept.copy_(fresh)
    net.seen += 1


WRITES: dict[str, Callable[[], Any]] = {
    "mul_add": kept(lambda net, h: net.kept.mul_(0.9).add_(0.1 * h.detach().mean(0))),
    "copy": kept(lambda net, h: net.kept.copy_(h.detach().amax(0))),
    "lerp": kept(lambda net, h: net.kept.lerp_(h.detach().mean(0), 0.25)),
    "addcmul": kept(lambda net, h: net.kept.addcmul_(h.detach()[0], h.detach()[1], value=0.1)),
    "fill": kept(lambda net, h: net.kept.fill_(0.75)),
    "zero": kept(lambda net, h: net.kept.zero_()),
    "clamp": kept(lambda net, h: net.kept.sub_(0.2).clamp_(min=0.2)),
    "data": kept(lambda net, h: net.kept.data.copy_(h.detach().mean(0))),
    "rebound": kept(rebound),
    "assigned": kept(assigned),
    "assigned_by_ids": kept(assigned_by_ids),
    "view": kept(lambda net, h: net.kept.view(2, 3)[1].add_(h.detach().mean())),
    "index_add": kept(lambda net, h: net.kept.index_add_(0, torch.tensor([1, 1, 3]), h.detach()[0, :3])),
    "scatter": kept(lambda net, h: net.kept.scatter_(0, torch.tensor([2, 5]), h.detach()[0, :2])),
    "masked_fill": kept(lambda net, h: net.kept.masked_fill_(h.detach()[0] > 0, 0.1)),
    "no_grad": kept(lambda net, h: torch.no_grad()(lambda: net.kept.add_(h.mean(0)))()),
    "counter": kept(lambda net, h: net.kept.add_(1), torch.tensor(0)),
    "counter_by_two": kept(lambda net, h: net.kept.mul_(2), torch.tensor(3, dtype=torch.int32)),
    "flag": kept(lambda net, h: net.kept.logical_not_(), torch.tensor(False)),
    "queue": kept(lambda net, h: net.kept.copy_(torch.cat([net.kept[1:], h.detach().mean(0)[:1]]))),
    "conditional": lambda: Net(
        lambda net, h: (conditional(net, h), torch.tanh(net.extra(h)) + net.kept)[1],
        lambda net: (net.register_buffer("kept", torch.zeros(WIDTH)), net.register_buffer("seen", torch.tensor(0))),
    ),
    "annealed": lambda: Net(
        lambda net, h: (net.step.add_(1), torch.tanh(net.extra(h)) / (1 + torch.exp(-0.5 * net.step)))[1],
        lambda net: net.register_buffer("step", torch.tensor(0)),
    ),
    "batch_norm": lambda: Net(
        lambda net, h: net.norm(net.extra(h)), lambda net: net.add_module("norm", nn.BatchNorm1d(WIDTH))
    ),
    "batch_norm_clamped": lambda: Net(
        lambda net, h: (net.norm(net.extra(h)), net.norm.running_var.data.clamp_(min=0.9))[0],
        lambda net: net.add_module("norm", nn.BatchNorm1d(WIDTH)),
    ),
    "batch_norm_twice": lambda: Net(
        lambda net, h: net.norm(net.extra(net.norm(h))), lambda net: net.add_module("norm", nn.BatchNorm1d(WIDTH))
    ),
}


@pytest.mark.parametrize("name", WRITES)
def test_buffers_are_pytorch_s(name: str) -> None:
    """Each write to a buffer lasts from pass to pass, as in PyTorch."""
    assert_alike(WRITES[name], *batches())


def test_plain_tensors_last() -> None:
    """Attributes that are tensors, also in a list, are kept like buffers, and the module has the last ones."""
    for place in ("attribute", "list"):

        def prepare(net: Any) -> None:
            net.memory = [torch.zeros(WIDTH)]
            net.kept = torch.zeros(WIDTH)

        def middle(net: Any, h: Any, place: str = place) -> Any:
            memory = net.kept if place == "attribute" else net.memory[0]
            memory.mul_(0.5).add_(h.detach().mean(0))
            return torch.tanh(net.extra(h)) + memory

        x, y = batches()
        torch.manual_seed(1)
        ours = Net(middle, prepare)
        theirs = copy.deepcopy(ours)
        trained = front.train(ours, (x, y), "cross_entropy", lr=0.1, batch_size=ROWS, shuffle=False)
        limits = table()["front"]
        assert np.allclose(trained.losses, trained_by_pytorch(theirs, x, y), rtol=0, atol=limits["loss"])
        for tensor, expected in ((ours.kept, theirs.kept), (ours.memory[0], theirs.memory[0])):
            assert expected.any() == ((expected is theirs.kept) == (place == "attribute"))
            assert torch.allclose(tensor, expected, rtol=0, atol=float(expected.abs().max()) * limits["movement"])
