"""Modules over sequences: state spaces, cells in loops, attention of several kinds, alignment. Needs torch."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from DeployTest.suites.torch_models.beside import Trial
from DeployTest.suites.torch_models.modules_base import classes, integers, module, normal, own_loss, supervised


class S4D(nn.Module):
    """Diagonal state space, whose kernel is a sum of decaying exponentials, applied as a causal convolution."""

    def __init__(self, dim: int, states: int = 4) -> None:
        super().__init__()
        self.log_step = nn.Parameter(torch.rand(dim) * math.log(100) + math.log(0.001))
        self.log_decay = nn.Parameter(torch.log(0.5 + torch.arange(states)).repeat(dim, 1))
        self.frequency = nn.Parameter(math.pi * torch.arange(states).repeat(dim, 1))
        self.mix, self.skip = nn.Parameter(torch.randn(dim, states)), nn.Parameter(torch.randn(dim))
        self.out = nn.Sequential(nn.GELU(), nn.Conv1d(dim, 2 * dim, 1), nn.GLU(dim=1))

    def forward(self, u: Tensor) -> Tensor:
        length, step = u.shape[-1], self.log_step.exp().unsqueeze(-1)
        time = torch.arange(length, device=u.device)
        decay, turn = -self.log_decay.exp() * step, self.frequency * step
        wave = torch.exp(decay.unsqueeze(-1) * time) * torch.cos(turn.unsqueeze(-1) * time)
        kernel = 2 * torch.einsum("dn,dnl->dl", self.mix * step, wave)
        y = F.conv1d(F.pad(u, (length - 1, 0)), kernel.flip(-1).unsqueeze(1), groups=u.shape[1])
        return self.out(y + u * self.skip.unsqueeze(-1))


class StateSpaces(nn.Module):
    """Two layers with norms, and scores from the mean."""

    def __init__(self, dim: int = 6) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(2, dim), nn.Linear(dim, 4)
        self.layers = nn.ModuleList(S4D(dim) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = self.encoder(x).transpose(-1, -2)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = norm((x + layer(x)).transpose(-1, -2)).transpose(-1, -2)
        return self.decoder(x.mean(dim=-1))


@module
def s4d() -> Trial:
    """Structured state space with a diagonal matrix."""
    return supervised(StateSpaces, 3, "cross_entropy", classes(4, 3), x=normal(3, 12, 2))


class SelectiveScan(nn.Module):
    """Mamba's block: a state whose step and matrices depend on the input, in a loop."""

    def __init__(self, dim: int = 6, states: int = 3, rank: int = 2) -> None:
        super().__init__()
        inner = 2 * dim
        self.states, self.rank = states, rank
        self.in_proj = nn.Linear(dim, 2 * inner, bias=False)
        self.conv1d = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
        self.x_proj, self.dt_proj = nn.Linear(inner, rank + 2 * states, bias=False), nn.Linear(rank, inner)
        self.a_log = nn.Parameter(torch.log(torch.arange(1, states + 1, dtype=torch.float32).repeat(inner, 1)))
        self.skip, self.out_proj = nn.Parameter(torch.ones(inner)), nn.Linear(inner, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        u, gate = self.in_proj(x).chunk(2, dim=-1)
        u = F.silu(self.conv1d(u.transpose(1, 2))[..., :length]).transpose(1, 2)
        step, b, c = torch.split(self.x_proj(u), [self.rank, self.states, self.states], dim=-1)
        step, a = F.softplus(self.dt_proj(step)), -torch.exp(self.a_log)
        decay = torch.exp(step.unsqueeze(-1) * a)
        driven = step.unsqueeze(-1) * b.unsqueeze(2) * u.unsqueeze(-1)
        state, outputs = torch.zeros_like(driven[:, 0]), []
        for t in range(length):
            state = decay[:, t] * state + driven[:, t]
            outputs.append(torch.einsum("bdn,bn->bd", state, c[:, t]))
        y = torch.stack(outputs, dim=1) + u * self.skip
        return self.out_proj(y * F.silu(gate))


class MambaModel(nn.Module):
    """A language model whose embedding is its head."""

    def __init__(self, words: int = 11, dim: int = 6) -> None:
        super().__init__()
        self.embedding, self.mixer = nn.Embedding(words, dim), SelectiveScan(dim)
        self.norm, self.last = nn.RMSNorm(dim, eps=1e-5), nn.RMSNorm(dim, eps=1e-5)
        self.head = nn.Linear(dim, words, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        scores = self.head(self.last(x + self.mixer(self.norm(x))))
        return F.cross_entropy(scores[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


@module
def mamba() -> Trial:
    """Selective state space as a language model with tied weights."""
    return own_loss(MambaModel, 2, ids=integers(11, 2, 8))


class MinGru(nn.Module):
    """minGRU: a linear recurrence by sums in log space."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.gate, self.candidate = nn.Linear(dim, hidden), nn.Linear(dim, hidden)

    def forward(self, x: Tensor) -> Tensor:
        k, raw = self.gate(x), self.candidate(x)
        log_new, log_keep = -F.softplus(-k), -F.softplus(k)
        log_values = torch.where(raw >= 0, (F.relu(raw) + 0.5).log(), -F.softplus(-raw))
        total = torch.cumsum(log_keep, dim=1)
        return torch.exp(total + torch.logcumsumexp(log_new + log_values - total, dim=1))


class MinGruForecast(nn.Module):
    """Two layers, forward and backward in time, and a forecast of each next value."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead, self.behind, self.head = MinGru(3, 6), MinGru(3, 6), nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        back = self.behind(x.flip(1)).flip(1)
        return self.head(torch.cat([self.ahead(x), back], dim=-1))


@module
def min_gru() -> Trial:
    """Parallel linear recurrence by cumsum and logcumsumexp."""
    return supervised(MinGruForecast, 3, "mse", normal(3, 10, 3, seed=8), x=normal(3, 10, 3))


class Attend(nn.Module):
    """Bahdanau's attention."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.query, self.key, self.energy = nn.Linear(dim, dim), nn.Linear(2 * dim, dim), nn.Linear(dim, 1)

    def forward(self, state: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        energy = self.energy(torch.tanh(self.query(state).unsqueeze(1) + self.key(memory))).squeeze(-1)
        weights = torch.softmax(energy.masked_fill(mask == 0, float("-inf")), dim=-1)
        return torch.bmm(weights.unsqueeze(1), memory).squeeze(1)


class SequenceToSequence(nn.Module):
    """An encoder in both directions, a decoder of cells with teacher forcing."""

    def __init__(self, words: int = 9, dim: int = 5) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(words, dim, padding_idx=0), nn.Embedding(words, dim, padding_idx=0)
        self.encoder = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.bridge, self.attend = nn.Linear(2 * dim, 2 * dim), Attend(dim)
        self.cell, self.second = nn.LSTMCell(3 * dim, dim), nn.GRUCell(dim, dim)
        self.head = nn.Linear(4 * dim, words)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory, last = self.encoder(self.source(source))
        h, c = torch.tanh(self.bridge(torch.cat([last[0], last[1]], dim=-1))).chunk(2, dim=-1)
        mask, second, outputs = source != 0, torch.zeros_like(h), []
        embedded = self.target(target)
        for t in range(target.size(1) - 1):
            context = self.attend(h, memory, mask)
            h, c = self.cell(torch.cat([embedded[:, t], context], dim=-1), (h, c))
            second = self.second(h, second)
            outputs.append(self.head(torch.cat([second, context, embedded[:, t]], dim=-1)))
        scores = torch.stack(outputs, dim=1)
        return F.cross_entropy(scores.transpose(1, 2), target[:, 1:], ignore_index=0)


@module
def sequence_to_sequence() -> Trial:
    """Translation with attention and teacher forcing; 0 pads."""
    source, target = integers(9, 3, 6, low=1), integers(9, 3, 5, low=1, seed=4)
    source[::2, 4:], target[1::2, 4:] = 0, 0
    return own_loss(SequenceToSequence, 3, source=source, target=target)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the halves of each head's features."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class RotaryAttention(nn.Module):
    """Causal attention with rotary positions, grouped keys and T5's buckets of distances as a bias."""

    def __init__(self, dim: int = 8, heads: int = 4, groups: int = 2) -> None:
        super().__init__()
        self.heads, self.groups, self.width = heads, groups, dim // heads
        self.q, self.kv = nn.Linear(dim, dim, bias=False), nn.Linear(dim, 2 * groups * self.width, bias=False)
        self.bias, self.out = nn.Embedding(6, heads), nn.Linear(dim, dim)
        inverse = 1.0 / (10000 ** (torch.arange(0, self.width, 2).float() / self.width))
        self.register_buffer("inverse", inverse, persistent=False)

    def buckets(self, length: int) -> Tensor:
        """Number distances: three exact, then by their logarithm."""
        distance = (torch.arange(length)[:, None] - torch.arange(length)[None, :]).clamp(min=0)
        large = 3 + (torch.log(distance.float().clamp(min=1) / 3) / math.log(12 / 3) * 3).long()
        return torch.where(distance < 3, distance, large.clamp(max=5))

    def forward(self, x: Tensor) -> Tensor:
        b, length, dim = x.shape
        q = self.q(x).view(b, length, self.heads, self.width).transpose(1, 2)
        k, v = self.kv(x).view(b, length, 2, self.groups, self.width).permute(2, 0, 3, 1, 4)
        angles = torch.outer(torch.arange(length).to(self.inverse), self.inverse)
        angles = torch.cat([angles, angles], dim=-1)
        q, k = rotate(q, angles.cos(), angles.sin()), rotate(k, angles.cos(), angles.sin())
        k, v = (y.repeat_interleave(self.heads // self.groups, dim=1) for y in (k, v))
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        bias = self.bias(self.buckets(length)).permute(2, 0, 1).masked_fill(future, float("-inf"))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(b, -1, -1, -1))
        return self.out(y.transpose(1, 2).reshape(b, length, dim))


class GatedDecoder(nn.Module):
    """A block with SwiGLU after the attention."""

    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.attention, self.norms = RotaryAttention(dim), nn.ModuleList(nn.RMSNorm(dim) for _ in range(2))
        self.gate, self.up, self.down = nn.Linear(dim, 12), nn.Linear(dim, 12), nn.Linear(12, dim)
        self.head = nn.Linear(dim, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norms[0](x))
        y = self.norms[1](x)
        x = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return self.head(x[:, -1])


@module
def rotary_attention() -> Trial:
    """Decoder block with rotary positions, grouped queries and a relative bias."""
    return supervised(GatedDecoder, 3, "mse", normal(3, 3, seed=9), x=normal(3, 7, 8))


class LinearAttention(nn.Module):
    """Attention by feature maps: ELU + 1 with causal sums, and Performer's random features."""

    def __init__(self, dim: int = 6, features: int = 8) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(2 * dim, dim)
        self.register_buffer("projection", nn.init.orthogonal_(torch.empty(features, dim)) * math.sqrt(dim))

    def positive(self, x: Tensor) -> Tensor:
        """Features whose products estimate a softmax kernel."""
        x = x * x.shape[-1] ** -0.25
        dash = x @ self.projection.T
        offset = (x**2).sum(-1, keepdim=True) / 2
        peak = dash.amax(dim=-1, keepdim=True).detach()
        return self.projection.shape[0] ** -0.5 * (torch.exp(dash - offset - peak) + 1e-4)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        a, b = F.elu(q) + 1, F.elu(k) + 1
        memory = torch.einsum("bld,ble->blde", b, v).cumsum(dim=1)
        normalizer = 1 / (torch.einsum("bld,bld->bl", a, b.cumsum(dim=1)) + 1e-6)
        causal = torch.einsum("bld,blde,bl->ble", a, memory, normalizer)
        q, k = self.positive(q), self.positive(k)
        whole = torch.einsum("blf,bfe->ble", q, torch.einsum("blf,ble->bfe", k, v))
        whole = whole / (q @ k.sum(dim=1).unsqueeze(-1))
        return self.out(torch.cat([causal, whole], dim=-1))


@module
def linear_attention() -> Trial:
    """Linear attention with causal sums, and with Performer's features."""
    target = normal(3, 8, 6, seed=10)
    return supervised(
        lambda: nn.Sequential(nn.LayerNorm(6), LinearAttention()), 3, "smooth_l1", target, input=normal(3, 8, 6)
    )


class Ctc(nn.Module):
    """A recognizer with a loss over all alignments, by the forward algorithm in log space."""

    def __init__(self, symbols: int = 5, dim: int = 6) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(4, dim, 3, stride=2, padding=1), nn.BatchNorm1d(dim)
        self.head = nn.Linear(dim, symbols)

    def forward(self, sound: Tensor, labels: Tensor) -> Tensor:
        x = F.relu(self.norm(self.conv(sound))).transpose(1, 2)
        log_probs = self.head(x).log_softmax(-1)
        b, length, _ = log_probs.shape
        extended = torch.zeros(b, 2 * labels.shape[1] + 1, dtype=torch.long)
        extended[:, 1::2] = labels
        emitted = log_probs.gather(2, extended.unsqueeze(1).expand(-1, length, -1))
        never = torch.full((b, 1), -1e5)
        skips = (extended[:, 2:] != extended[:, :-2]) & (extended[:, 2:] != 0)
        alpha = torch.full((b, extended.shape[1]), -1e5)
        alpha[:, :2] = emitted[:, 0, :2]
        for t in range(1, length):
            one = torch.cat([never, alpha[:, :-1]], dim=1)
            two = torch.cat([never, never, torch.where(skips, alpha[:, :-2], torch.tensor(-1e5))], dim=1)
            alpha = torch.logsumexp(torch.stack([alpha, one, two]), dim=0) + emitted[:, t]
        return -torch.logaddexp(alpha[:, -1], alpha[:, -2]).mean() / labels.shape[1]


@module
def ctc_by_hand() -> Trial:
    """Connectionist temporal classification in a loop."""
    return own_loss(Ctc, 3, sound=normal(3, 4, 14), labels=integers(5, 3, 3, low=1))
