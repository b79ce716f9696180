"""Modules that differ in how they train: experts, penalties, constraints, adapters, solvers. Needs torch."""

import itertools
import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils import parametrizations

from DeployTest.suites.torch_models.beside import Trial
from DeployTest.suites.torch_models.modules_base import classes, integers, module, normal, own_loss, supervised, uniform


class Experts(nn.Module):
    """The two best of four experts for each token, with a loss that balances them."""

    def __init__(self, dim: int = 6, count: int = 4) -> None:
        super().__init__()
        self.count, self.gate = count, nn.Linear(dim, count, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 8), nn.GELU(), nn.Linear(8, dim)) for _ in range(count)
        )
        self.head = nn.Linear(dim, 3)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        p = F.softmax(self.gate(flat), dim=-1)
        weights, chosen = torch.topk(p, 2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        mixed = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            share = (weights * (chosen == number)).sum(-1, keepdim=True)
            mixed = mixed + share * expert(flat)
        routed = F.one_hot(chosen, self.count).float().sum(1).mean(0)
        balance = self.count * (routed * p.mean(0)).sum()
        scores = self.head((flat + mixed).view_as(x).mean(1))
        return F.cross_entropy(scores, labels) + 0.01 * balance


@module
def mixture_of_experts() -> Trial:
    """Top-k gate with a balancing loss."""
    return own_loss(Experts, 3, x=normal(3, 5, 6), labels=classes(3, 3))


class SoftExperts(nn.Module):
    """Experts as one batched weight, slots filled by softmax over tokens, and several tasks with uncertainties."""

    def __init__(self, dim: int = 6, count: int = 3, slots: int = 2) -> None:
        super().__init__()
        self.phi = nn.Parameter(torch.randn(dim, count, slots) * dim**-0.5)
        self.first, self.second = (nn.Parameter(0.3 * torch.randn(count, dim, dim)) for _ in range(2))
        self.heads, self.log_vars = nn.ModuleList(nn.Linear(dim, 1) for _ in range(2)), nn.Parameter(torch.zeros(2))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        scores = torch.einsum("btd,des->btes", x, self.phi)
        dispatch = scores.softmax(dim=1)
        combine = scores.flatten(2).softmax(dim=-1).view_as(scores)
        slots = torch.einsum("btes,btd->besd", dispatch, x)
        h = F.relu(torch.einsum("besd,edf->besf", slots, self.first))
        h = torch.einsum("besf,efd->besd", h, self.second)
        pooled = torch.einsum("btes,besd->btd", combine, h).amax(dim=1)
        losses = torch.stack([F.mse_loss(head(pooled).squeeze(-1), y[:, i]) for i, head in enumerate(self.heads)])
        return (torch.exp(-self.log_vars) * losses + self.log_vars).sum()


@module
def soft_experts() -> Trial:
    """Soft mixture of experts, and losses weighed by learned uncertainties."""
    return own_loss(SoftExperts, 3, x=normal(3, 5, 6), y=normal(3, 2, seed=17))


class ScoreMatching(nn.Module):
    """An energy whose gradient is fitted to the direction of added noise."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 10), nn.SiLU(), nn.Linear(10, 10), nn.Softplus(), nn.Linear(10, 1))

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        sigma = 0.5
        moved = (x + sigma * noise).requires_grad_(True)
        energy = self.net(moved).sum()
        score = -torch.autograd.grad(energy, moved, create_graph=True)[0]
        return ((score + noise / sigma) ** 2).sum(dim=-1).mean() / 2


@module
def score_matching() -> Trial:
    """Energy-based model by denoising score matching."""
    return own_loss(ScoreMatching, 5, x=normal(5, 3), noise=normal(5, 3, seed=18))


class Critic(nn.Module):
    """Wasserstein critic with a penalty on its gradient between real and drawn samples."""

    def __init__(self) -> None:
        super().__init__()
        convs = [nn.Conv2d(1, 4, 3, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(4, 8, 3, 2, 1), nn.LeakyReLU(0.2)]
        self.net = nn.Sequential(*convs, nn.Flatten(), nn.Linear(32, 1))

    def forward(self, real: Tensor, drawn: Tensor, share: Tensor) -> Tensor:
        between = share * real + (1 - share) * drawn
        between.requires_grad_(True)
        scores = self.net(between)
        gradients = torch.autograd.grad(
            outputs=scores, inputs=between, grad_outputs=torch.ones_like(scores), create_graph=True, retain_graph=True
        )[0]
        norm = gradients.view(len(gradients), -1).norm(2, dim=1)
        return self.net(drawn).mean() - self.net(real).mean() + 10 * ((norm - 1) ** 2).mean()


@module
def gradient_penalty() -> Trial:
    """WGAN-GP critic."""
    real, drawn = normal(3, 1, 8, 8), normal(3, 1, 8, 8, seed=19)
    return own_loss(Critic, 3, real=real, drawn=drawn, share=uniform(3, 1, 1, 1))


@module
def normalized_weights() -> Trial:
    """Spectral, weight and orthogonal norm by parametrizations."""

    def build() -> nn.Module:
        first = parametrizations.spectral_norm(nn.Conv2d(1, 4, 3))
        second = parametrizations.weight_norm(nn.Conv2d(4, 6, 3, 2), dim=0)
        last = parametrizations.spectral_norm(nn.Linear(24, 3), n_power_iterations=2)
        return nn.Sequential(first, nn.ELU(), second, nn.ReLU(), nn.Flatten(), last)

    return supervised(build, 3, nn.MultiMarginLoss(), classes(3, 3), input=normal(3, 1, 8, 8))


class Lora(nn.Module):
    """A frozen linear layer with a correction of low rank (DoRA: and a magnitude for each output)."""

    def __init__(self, base: nn.Linear, rank: int = 2, alpha: float = 4.0) -> None:
        super().__init__()
        self.base, self.scaling = base.requires_grad_(False), alpha / rank
        self.lora_a = nn.Parameter(torch.empty(rank, base.in_features))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))
        self.magnitude = nn.Parameter(base.weight.norm(dim=1, keepdim=True).detach())

    def forward(self, x: Tensor) -> Tensor:
        weight = self.base.weight + self.scaling * self.lora_b @ self.lora_a
        norm = weight.norm(p=2, dim=1, keepdim=True).detach()
        return F.linear(x, self.magnitude * weight / norm, self.base.bias)


class Adapted(nn.Module):
    """A frozen net: low-rank layers, a prompt and a bottleneck are all that trains."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(10, 6).requires_grad_(False)
        self.prompt = nn.Parameter(0.1 * torch.randn(2, 6))
        self.q, self.v = Lora(nn.Linear(6, 6)), Lora(nn.Linear(6, 6))
        self.k, self.norm = nn.Linear(6, 6).requires_grad_(False), nn.LayerNorm(6).requires_grad_(False)
        self.adapter, self.head = nn.Sequential(nn.Linear(6, 3), nn.GELU(), nn.Linear(3, 6)), nn.Linear(6, 4)

    def forward(self, ids: Tensor) -> Tensor:
        x = torch.cat([self.prompt.expand(len(ids), -1, -1), self.words(ids)], dim=1)
        x = x + F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x))
        x = self.norm(x)
        return self.head((x + self.adapter(x)).mean(1))


@module
def low_rank_adapters() -> Trial:
    """LoRA, a prompt and an adapter in a frozen net."""
    return supervised(Adapted, 3, "cross_entropy", classes(4, 3), ids=integers(10, 3, 5))


class BatchRenorm(nn.Module):
    """Ioffe's norm, corrected towards running statistics, whose limits widen with the count of batches."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))
        self.register_buffer("running_mean", torch.zeros(dim))
        self.register_buffer("running_std", torch.ones(dim))
        self.register_buffer("num_batches_tracked", torch.tensor(0, dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            mean, std = x.mean(0), x.std(0, unbiased=False) + 1e-3
            most = (1 + self.num_batches_tracked.float() / 3).clamp(max=3.0)
            furthest = (self.num_batches_tracked.float() / 4).clamp(max=5.0)
            r = torch.minimum(torch.maximum(std.detach() / self.running_std, 1 / most), most)
            d = (mean.detach() - self.running_mean) / self.running_std
            d = torch.minimum(torch.maximum(d, -furthest), furthest)
            x = (x - mean) / std * r + d
            self.running_mean += 0.1 * (mean.detach() - self.running_mean)
            self.running_std += 0.1 * (std.detach() - self.running_std)
            self.num_batches_tracked += 1
        else:
            x = (x - self.running_mean) / self.running_std
        return self.weight * x + self.bias


@module
def batch_renorm() -> Trial:
    """Batch renormalization."""

    def build() -> nn.Module:
        return nn.Sequential(
            nn.Linear(6, 8, bias=False), BatchRenorm(8), nn.ReLU(), nn.Linear(8, 5, bias=False), BatchRenorm(5)
        )

    return supervised(build, 6, "huber", normal(6, 5, seed=21), input=normal(6, 6))


class Transport(nn.Module):
    """Matches two sets of points by Sinkhorn's iterations in log space."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.dustbin = (
            nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4)),
            nn.Parameter(torch.tensor(1.0)),
        )

    def forward(self, first: Tensor, second: Tensor, match: Tensor) -> Tensor:
        a, b = self.net(first), self.net(second)
        scores = torch.einsum("bnd,bmd->bnm", a, b) / a.shape[-1] ** 0.5
        batch, n, m = scores.shape
        column, row = self.dustbin.expand(batch, n, 1), self.dustbin.expand(batch, 1, m + 1)
        couplings = torch.cat([torch.cat([scores, column], -1), row], 1)
        norm = -scores.new_tensor(float(n + m)).log()
        log_mu = torch.cat([norm.expand(n), norm.new_tensor([m]).log() + norm]).expand(batch, -1)
        log_nu = torch.cat([norm.expand(m), norm.new_tensor([n]).log() + norm]).expand(batch, -1)
        u, v = torch.zeros_like(log_mu), torch.zeros_like(log_nu)
        for _ in range(4):
            u = log_mu - torch.logsumexp(couplings + v.unsqueeze(1), dim=2)
            v = log_nu - torch.logsumexp(couplings + u.unsqueeze(2), dim=1)
        plan = couplings + u.unsqueeze(2) + v.unsqueeze(1) - norm
        return -plan[:, :n].gather(2, match.unsqueeze(-1)).mean()


@module
def sinkhorn() -> Trial:
    """Optimal matching with a dustbin (SuperGlue)."""
    return own_loss(Transport, 2, first=normal(2, 4, 3), second=normal(2, 5, 3, seed=22), match=integers(6, 2, 4))


class Kernels(nn.Module):
    """Radial basis functions, then thresholds of an ordered label (CORAL)."""

    def __init__(self, dim: int = 3, count: int = 5, ranks: int = 4) -> None:
        super().__init__()
        self.centers, self.log_sigma = nn.Parameter(torch.randn(count, dim)), nn.Parameter(torch.zeros(count))
        self.score, self.steps = nn.Linear(count, 1, bias=False), nn.Parameter(torch.linspace(0.5, -0.5, ranks - 1))

    def forward(self, x: Tensor, rank: Tensor) -> Tensor:
        distance = torch.cdist(x, self.centers)
        kernel = torch.exp(-((distance / self.log_sigma.exp()) ** 2) / 2)
        scores = self.score(kernel / (kernel.sum(1, keepdim=True) + 1e-9)) + self.steps
        levels = (rank.unsqueeze(1) > torch.arange(self.steps.numel())).to(scores.dtype)
        return -(F.logsigmoid(scores) * levels + (F.logsigmoid(scores) - scores) * (1 - levels)).sum(1).mean()


@module
def rbf_ordinal() -> Trial:
    """RBF network with ordinal regression."""
    return own_loss(Kernels, 5, x=normal(5, 3), rank=integers(4, 5))


class HyperNetwork(nn.Module):
    """A net that makes the weights of another from a task's code, each sample having its own."""

    def __init__(self, dim: int = 3, hidden: int = 5) -> None:
        super().__init__()
        self.sizes = [hidden * dim, hidden, hidden, 1]
        self.codes = nn.Embedding(4, 3)
        self.hyper = nn.Sequential(nn.Linear(3, 12), nn.SELU(), nn.Linear(12, sum(self.sizes)))

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        w1, b1, w2, b2 = self.hyper(self.codes(task)).split(self.sizes, dim=-1)
        w1 = w1.view(len(x), -1, x.shape[-1])
        h = torch.sin(torch.bmm(x, w1.transpose(1, 2)) + b1.unsqueeze(1))
        return torch.baddbmm(b2.unsqueeze(1), h, w2.unsqueeze(-1)).squeeze(-1)


@module
def hypernetwork() -> Trial:
    """Hypernetwork that fits functions of points."""
    target = normal(3, 6, seed=23)
    return supervised(HyperNetwork, 3, "mse", target, x=normal(3, 6, 3), task=integers(4, 3))


class NeuralOde(nn.Module):
    """A flow by Runge-Kutta's steps, whose divergence gives the density, and a penalty on its speed."""

    def __init__(self, dim: int = 2) -> None:
        super().__init__()
        self.field = nn.Sequential(nn.Linear(dim + 1, 8), nn.Tanh(), nn.Linear(8, dim))

    def slope(self, t: Tensor, y: Tensor) -> Tensor:
        """The velocity at a time."""
        return self.field(torch.cat([y, t.expand(len(y), 1)], dim=-1))

    def forward(self, y: Tensor) -> Tensor:
        energy, times = torch.zeros(()), torch.linspace(0, 1, 5)
        for start, end in itertools.pairwise(times):
            h = end - start
            k1 = self.slope(start, y)
            k2 = self.slope(start + h / 2, y + h / 2 * k1)
            k3 = self.slope(start + h / 2, y + h / 2 * k2)
            k4 = self.slope(end, y + h * k3)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            energy = energy + h * k1.square().mean()
        return 0.5 * y.square().sum(-1).mean() + 0.1 * energy


@module
def neural_ode() -> Trial:
    """Neural ODE with RK4."""
    return own_loss(NeuralOde, 4, y=normal(4, 2))


class Quantiles(nn.Module):
    """Three quantiles that cannot cross, over features of dilated causal convolutions with gates."""

    def __init__(self) -> None:
        super().__init__()
        self.filters = nn.ModuleList(nn.Conv1d(4, 8, 2, dilation=d) for d in (1, 2, 4))
        self.inward, self.skips = nn.Conv1d(2, 4, 1), nn.ModuleList(nn.Conv1d(4, 4, 1) for _ in range(3))
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x, total = self.inward(x), 0
        for layer, skip in zip(self.filters, self.skips, strict=True):
            a, b = layer(F.pad(x, (layer.dilation[0], 0))).chunk(2, dim=1)
            h = skip(torch.tanh(a) * torch.sigmoid(b))
            x, total = x + h, total + h
        low, *gaps = self.head(F.relu(total[..., -1])).unbind(-1)
        predicted = torch.stack([low, *gaps], -1)
        predicted = torch.cat([predicted[:, :1], F.softplus(predicted[:, 1:])], -1).cumsum(-1)
        q = torch.tensor([0.1, 0.5, 0.9])
        error = y.unsqueeze(-1) - predicted
        return torch.max(q * error, (q - 1) * error).sum(-1).mean()


@module
def quantile_forecast() -> Trial:
    """WaveNet's gates and the pinball loss."""
    return own_loss(Quantiles, 4, x=normal(4, 2, 10), y=normal(4, seed=24))
