"""Modules that learn representations or densities: contrast, triplets, prototypes, autoencoders. Needs torch."""

import itertools
import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from DeployTest.suites.torch_models.beside import Trial
from DeployTest.suites.torch_models.modules_base import classes, integers, module, normal, own_loss, supervised, uniform


def mlp(*widths: int) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for dim, out in itertools.pairwise(widths):
        layers += [nn.Linear(dim, out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class SimClr(nn.Module):
    """Two views of each sample, of which each finds the other among all."""

    def __init__(self) -> None:
        super().__init__()
        convs = [nn.Conv2d(3, 6, 3, 2), nn.BatchNorm2d(6), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1)]
        self.encoder, self.projector = nn.Sequential(*convs, nn.Flatten()), mlp(6, 8, 5)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        z = F.normalize(self.projector(self.encoder(torch.cat([first, second]))), dim=1)
        n = len(first)
        similar = z @ z.T / 0.5
        similar = similar.masked_fill(torch.eye(2 * n, dtype=torch.bool, device=z.device), float("-inf"))
        partner = torch.cat([torch.arange(n) + n, torch.arange(n)])
        return F.cross_entropy(similar, partner)


@module
def simclr() -> Trial:
    """NT-Xent over two views."""
    return own_loss(SimClr, 4, first=normal(4, 3, 8, 8), second=normal(4, 3, 8, 8, seed=12))


class Clip(nn.Module):
    """Images and captions in one space, with a temperature that is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Sequential(nn.Conv2d(3, 6, 4, 4), nn.GELU(), nn.Flatten(), nn.Linear(24, 6, bias=False))
        self.words, self.positions = nn.Embedding(12, 8), nn.Parameter(0.01 * torch.randn(6, 8))
        self.text = nn.TransformerEncoderLayer(
            8, 2, 12, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.projection = nn.Linear(8, 6, bias=False)
        self.logit_scale = nn.Parameter(torch.ones([]) * math.log(1 / 0.07))

    def forward(self, image: Tensor, text: Tensor) -> Tensor:
        x = self.text(self.words(text) + self.positions)
        end = x[torch.arange(len(x)), text.argmax(dim=-1)]
        a, b = self.image(image), self.projection(end)
        a, b = a / a.norm(dim=1, keepdim=True), b / b.norm(dim=1, keepdim=True)
        scores = self.logit_scale.exp().clamp(max=100) * a @ b.t()
        labels = torch.arange(len(scores))
        return (F.cross_entropy(scores, labels) + F.cross_entropy(scores.t(), labels)) / 2


@module
def clip() -> Trial:
    """Contrastive pairs of images and captions, whose last word is the largest."""
    text = integers(11, 4, 6)
    text[:, 4] = 11
    return own_loss(Clip, 4, image=normal(4, 3, 8, 8), text=text)


class Triplets(nn.Module):
    """Margins of given triplets, by distance and by cosine, and of the hardest in the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.margin = mlp(6, 10, 4), nn.TripletMarginLoss(margin=1.0, p=2, swap=True)
        self.cosine = nn.TripletMarginWithDistanceLoss(
            distance_function=lambda a, b: 1.0 - F.cosine_similarity(a, b), margin=0.5
        )

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor, labels: Tensor) -> Tensor:
        a, p, n = self.net(anchor), self.net(positive), self.net(negative)
        apart = torch.cdist(a, a)
        same = labels[:, None] == labels[None, :]
        farthest = (apart * same).max(dim=1).values
        nearest = apart.masked_fill(same, float("inf")).min(dim=1).values
        hardest = F.softplus(farthest - nearest).mean()
        return self.margin(a, p, n) + self.cosine(a, p, n) + hardest


@module
def triplets() -> Trial:
    """Triplet losses with margin, cosine, and hard mining."""
    views = {name: normal(6, 6, seed=13 + i) for i, name in enumerate(("anchor", "positive", "negative"))}
    return own_loss(Triplets, 6, **views, labels=classes(3, 6))


class Prototypes(nn.Module):
    """An episode: classes are the means of their shots, queries go to the nearest."""

    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)]
        self.encoder = nn.Sequential(*layers, nn.Conv2d(6, 4, 3), nn.Flatten())

    def forward(self, support: Tensor, query: Tensor, labels: Tensor) -> Tensor:
        ways, shots = support.shape[:2]
        prototypes = self.encoder(support.flatten(0, 1)).view(ways, shots, -1).mean(1)
        queries = self.encoder(query)
        distances = ((queries.unsqueeze(1) - prototypes.unsqueeze(0)) ** 2).sum(-1)
        return F.cross_entropy(-distances, labels)


@module
def prototypical() -> Trial:
    """Few shots, with each batch an episode of four ways."""
    labels = torch.arange(4).repeat(6)
    return own_loss(Prototypes, 4, support=normal(4, 2, 1, 8, 8), query=normal(4, 1, 8, 8, seed=14), labels=labels)


class Byol(nn.Module):
    """An online net that predicts what its moving average sees; the average lies in a module that is not trained."""

    def __init__(self) -> None:
        super().__init__()
        self.online = nn.Sequential(nn.Linear(6, 10), nn.BatchNorm1d(10), nn.ReLU(), nn.Linear(10, 5))
        self.predictor = mlp(5, 8, 5)
        for name, p in self.online.named_parameters():
            self.register_buffer(f"target_{name.replace('.', '_')}", p.detach().clone())

    @torch.no_grad()
    def move(self) -> None:
        """Move the average towards the online net."""
        for name, p in self.online.named_parameters():
            getattr(self, f"target_{name.replace('.', '_')}").mul_(0.9).add_(p.detach(), alpha=0.1)

    def target(self, x: Tensor) -> Tensor:
        """The average's projection."""
        with torch.no_grad():
            h = F.linear(x, self.target_0_weight, self.target_0_bias)
            h = F.batch_norm(h, None, None, self.target_1_weight, self.target_1_bias, training=True)
            return F.linear(F.relu(h), self.target_3_weight, self.target_3_bias)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        if self.training:
            self.move()
        a, b = self.predictor(self.online(first)), self.predictor(self.online(second))
        one = 2 - 2 * F.cosine_similarity(a, self.target(second).detach(), dim=-1)
        return (one + 2 - 2 * F.cosine_similarity(b, self.target(first).detach(), dim=-1)).mean()


@module
def byol() -> Trial:
    """Bootstrap with a target that is a moving average in buffers."""
    return own_loss(Byol, 5, first=normal(5, 6), second=normal(5, 6, seed=15))


class Vae(nn.Module):
    """Beta-VAE with convolutions, whose noise is drawn in forward."""

    def __init__(self, beta: float = 2.0) -> None:
        super().__init__()
        self.beta = beta
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 4, 4, 2, 1), nn.ReLU(), nn.Conv2d(4, 8, 4, 2, 1), nn.ReLU(), nn.Flatten()
        )
        self.mu, self.logvar, self.up = nn.Linear(32, 3), nn.Linear(32, 3), nn.Linear(3, 32)
        self.decoder = nn.Sequential(
            nn.Unflatten(1, (8, 2, 2)), nn.ConvTranspose2d(8, 4, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(4, 1, 4, 2, 1)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = self.encoder(x)
        mu, logvar = self.mu(h), self.logvar(h)
        std = torch.exp(0.5 * logvar)
        z = mu + torch.randn_like(std) * std
        return self.decoder(F.relu(self.up(z))), mu, logvar


def evidence(output: tuple[Tensor, Tensor, Tensor], x: Tensor) -> Tensor:
    """Cross entropy of pixels, and the divergence from a standard normal."""
    reconstructed, mu, logvar = output
    pixels = F.binary_cross_entropy_with_logits(reconstructed, x, reduction="sum")
    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return (pixels + 2.0 * kl) / x.numel()


@module
def beta_vae() -> Trial:
    """Convolutional beta-VAE with randn_like."""
    x = uniform(3, 1, 8, 8)
    return supervised(Vae, 3, evidence, x, x=x)


class VectorQuantizer(nn.Module):
    """The nearest code, straight through; codes are moving averages of what chose them."""

    def __init__(self, count: int = 6, dim: int = 4) -> None:
        super().__init__()
        codes = torch.randn(count, dim)
        self.register_buffer("codes", codes)
        self.register_buffer("cluster_size", torch.ones(count))
        self.register_buffer("cluster_sum", codes.clone())

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        flat = z.reshape(-1, z.shape[-1])
        distances = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.codes.t() + self.codes.pow(2).sum(1)
        index = distances.argmin(dim=1)
        quantized = F.embedding(index, self.codes).view_as(z)
        if self.training:
            with torch.no_grad():
                one_hot = F.one_hot(index, len(self.codes)).type(flat.dtype)
                self.cluster_size.mul_(0.8).add_(one_hot.sum(0), alpha=0.2)
                self.cluster_sum.mul_(0.8).add_(one_hot.t() @ flat, alpha=0.2)
                total = self.cluster_size.sum()
                size = (self.cluster_size + 1e-5) / (total + len(self.codes) * 1e-5) * total
                self.codes.copy_(self.cluster_sum / size.unsqueeze(1))
        commitment = 0.25 * F.mse_loss(z, quantized.detach())
        return z + (quantized - z).detach(), commitment


class VqVae(nn.Module):
    """An autoencoder with quantized features."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 8, 4, 2, 1), nn.ReLU(), nn.Conv2d(8, 4, 3, 1, 1))
        self.quantizer = VectorQuantizer()
        self.decoder = nn.Sequential(nn.Conv2d(4, 8, 3, 1, 1), nn.ReLU(), nn.ConvTranspose2d(8, 1, 4, 2, 1))

    def forward(self, x: Tensor) -> Tensor:
        quantized, commitment = self.quantizer(self.encoder(x).permute(0, 2, 3, 1))
        return F.mse_loss(self.decoder(quantized.permute(0, 3, 1, 2)), x) + commitment


@module
def vq_vae() -> Trial:
    """VQ-VAE with a codebook of moving averages."""
    return own_loss(VqVae, 3, x=normal(3, 1, 8, 8))


class DiscreteVae(nn.Module):
    """Categories by Gumbel's softmax, straight through, with the decoder tied to the encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.scores = nn.Linear(8, 10), nn.Linear(10, 3 * 4)
        self.up, self.bias = nn.Linear(3 * 4, 10), nn.Parameter(torch.zeros(8))

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        scores = self.scores(torch.tanh(self.encoder(x))).view(-1, 3, 4)
        gumbel = -torch.log(-torch.log(noise.clamp(1e-6, 1 - 1e-6)))
        soft = F.softmax((scores + gumbel) / 0.7, dim=-1)
        index = soft.argmax(dim=-1, keepdim=True)
        hard = torch.zeros_like(soft).scatter_(-1, index, 1.0)
        code = hard - soft.detach() + soft
        decoded = F.linear(torch.tanh(self.up(code.flatten(1))), self.encoder.weight.t(), self.bias)
        q = F.softmax(scores, dim=-1)
        kl = (q * (torch.log(q + 1e-20) + math.log(4))).sum((1, 2)).mean()
        return F.mse_loss(decoded, x) + 0.1 * kl


@module
def gumbel_autoencoder() -> Trial:
    """Autoencoder with Gumbel-softmax and tied weights; noise comes as data."""
    return own_loss(DiscreteVae, 4, x=normal(4, 8), noise=uniform(4, 3, 4))


class MixtureDensity(nn.Module):
    """A mixture of normal densities with a covariance each by its Cholesky factor."""

    def __init__(self, count: int = 3) -> None:
        super().__init__()
        self.count, self.body = count, nn.Sequential(nn.Linear(4, 10), nn.Tanh())
        self.pi, self.mu, self.scale = nn.Linear(10, count), nn.Linear(10, 2 * count), nn.Linear(10, 3 * count)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = self.body(x)
        log_pi = F.log_softmax(self.pi(h), dim=-1)
        mu, scale = self.mu(h).view(-1, self.count, 2), self.scale(h).view(-1, self.count, 3)
        factor = torch.diag_embed(F.softplus(scale[..., :2]) + 0.1)
        factor = factor + F.pad(scale[..., 2:].unsqueeze(-1), (0, 1, 1, 0))
        centred = (y.unsqueeze(1) - mu).unsqueeze(-1)
        whitened = torch.linalg.solve_triangular(factor, centred, upper=False).squeeze(-1)
        log_det = torch.diagonal(factor, dim1=-2, dim2=-1).log().sum(-1)
        log_p = -0.5 * whitened.pow(2).sum(-1) - log_det - math.log(2 * math.pi)
        return -torch.logsumexp(log_pi + log_p, dim=-1).mean()


@module
def mixture_density() -> Trial:
    """Mixture density network over two correlated outputs."""
    return own_loss(MixtureDensity, 5, x=normal(5, 4), y=normal(5, 2, seed=16))


class Teacher(nn.Module):
    """A student that learns from labels and from a frozen teacher's scores and features."""

    def __init__(self) -> None:
        super().__init__()
        self.teacher = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
        self.student, self.hint = mlp(6, 8, 4), nn.Linear(4, 4)
        for p in self.teacher.parameters():
            p.requires_grad_(False)
        self.teacher.eval()

    def train(self, mode: bool = True) -> "Teacher":
        """Keep the teacher in evaluation."""
        super().train(mode)
        self.teacher.eval()
        return self

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        with torch.no_grad():
            taught = self.teacher(x)
        scores, heat = self.student(x), 3.0
        soft = F.kl_div(
            F.log_softmax(scores / heat, dim=1),
            F.log_softmax(taught / heat, dim=1),
            reduction="batchmean",
            log_target=True,
        )
        hints = F.mse_loss(F.normalize(self.hint(scores)), F.normalize(taught))
        return 0.5 * heat**2 * soft + 0.5 * F.cross_entropy(scores, labels, label_smoothing=0.1) + hints


@module
def distillation() -> Trial:
    """Knowledge distillation from a frozen teacher."""
    return own_loss(Teacher, 4, x=normal(4, 6), labels=classes(4, 4))
