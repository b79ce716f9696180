"""Modules over images: transformers, mixers, samplers, detection, segmentation, capsules, style. Needs torch."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from DeployTest.suites.torch_models.beside import Trial
from DeployTest.suites.torch_models.modules_base import classes, integers, module, normal, own_loss, supervised, uniform


class WindowAttention(nn.Module):
    """Attention within windows, with a table of biases by relative position."""

    def __init__(self, dim: int, window: int, heads: int) -> None:
        super().__init__()
        self.window, self.heads, self.scale = window, heads, (dim // heads) ** -0.5
        self.bias_table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        nn.init.trunc_normal_(self.bias_table, std=0.02)
        coords = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        relative = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0) + window - 1
        self.register_buffer("index", relative[..., 0] * (2 * window - 1) + relative[..., 1])
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q * self.scale) @ k.transpose(-2, -1)
        bias = self.bias_table[self.index.view(-1)].view(n, n, -1).permute(2, 0, 1)
        scores = scores + bias.unsqueeze(0)
        if mask is not None:
            count = mask.shape[0]
            scores = scores.view(b // count, count, self.heads, n, n) + mask.unsqueeze(1).unsqueeze(0)
            scores = scores.view(-1, self.heads, n, n)
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))


class ShiftedBlock(nn.Module):
    """Swin's block: shifted windows, then a perceptron."""

    def __init__(self, dim: int, size: int, window: int, shift: int) -> None:
        super().__init__()
        self.size, self.window, self.shift = size, window, shift
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = WindowAttention(dim, window, 2)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        regions = torch.zeros(1, size, size, 1)
        spans = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
        for number, (rows, columns) in enumerate((r, c) for r in spans for c in spans):
            regions[:, rows, columns] = number
        parts = self.windows(regions).squeeze(-1)
        apart = parts.unsqueeze(1) != parts.unsqueeze(2)
        self.register_buffer("mask", torch.zeros(apart.shape).masked_fill(apart, -100.0) if shift else None)

    def windows(self, x: Tensor) -> Tensor:
        """Cut a map into windows."""
        b, h, w, c = x.shape
        n = self.window
        return x.view(b, h // n, n, w // n, n, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, n * n, c)

    def forward(self, x: Tensor) -> Tensor:
        b, _, c = x.shape
        y = self.norm1(x).view(b, self.size, self.size, c)
        y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        y = self.attention(self.windows(y), self.mask)
        count, n = self.size // self.window, self.window
        y = y.view(b, count, count, n, n, c).permute(0, 1, 3, 2, 4, 5).reshape(b, self.size, self.size, c)
        x = x + torch.roll(y, (self.shift, self.shift), (1, 2)).reshape(b, -1, c)
        return x + self.mlp(self.norm2(x))


class Swin(nn.Module):
    """Patches, two blocks, a class token over the result."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 2, 2)
        self.blocks = nn.Sequential(ShiftedBlock(8, 4, 2, 1), ShiftedBlock(8, 4, 2, 1))
        self.token = nn.Parameter(torch.randn(1, 1, 8) * 0.1)
        self.pool = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 5)

    def forward(self, image: Tensor) -> Tensor:
        x = self.blocks(self.patches(image).flatten(2).transpose(1, 2))
        token = self.token.expand(len(x), -1, -1)
        pooled, _ = self.pool(token, x, x)
        return self.head(pooled[:, 0])


@module
def shifted_windows() -> Trial:
    """Vision transformer over shifted windows, read by a class token."""
    return supervised(Swin, 3, "cross_entropy", classes(5, 3), image=normal(3, 3, 8, 8))


class LayerNorm2d(nn.LayerNorm):
    """Layer norm over channels that come first."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    """Depthwise 7 x 7, layer norm, two linear layers, and a scale for each channel."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dwconv, self.norm = nn.Conv2d(dim, dim, 7, padding=3, groups=dim), nn.LayerNorm(dim, eps=1e-6)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(torch.full((dim,), 0.1))
        self.beta = nn.Parameter(torch.zeros(1, 1, 1, 4 * dim))

    def forward(self, x: Tensor) -> Tensor:
        y = F.gelu(self.up(self.norm(self.dwconv(x).permute(0, 2, 3, 1))))
        norm = torch.norm(y, p=2, dim=(1, 2), keepdim=True)  # global response normalization
        y = y + self.beta * (y * norm / (norm.mean(-1, keepdim=True) + 1e-6))
        return x + (self.gamma * self.down(y)).permute(0, 3, 1, 2)


@module
def convnext() -> Trial:
    """ConvNeXt V2: layer scale and global response normalization."""

    def build() -> nn.Module:
        stem = [nn.Conv2d(3, 6, 2, 2), LayerNorm2d(6)]
        stages = [ConvNextBlock(6), LayerNorm2d(6), nn.Conv2d(6, 8, 2, 2), ConvNextBlock(8)]
        return nn.Sequential(*stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(8), nn.Linear(8, 4))

    return supervised(build, 2, nn.CrossEntropyLoss(label_smoothing=0.1), classes(4, 2), input=normal(2, 3, 12, 12))


class MixerBlock(nn.Module):
    """A perceptron over tokens and one over channels."""

    def __init__(self, tokens: int, dim: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.tokens = nn.Sequential(nn.Linear(tokens, 12), nn.GELU(), nn.Dropout(0.0), nn.Linear(12, tokens))
        self.channels = nn.Sequential(nn.Linear(dim, 16), nn.GELU(), nn.Dropout(0.0), nn.Linear(16, dim))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    """MLP-Mixer, with patches by unfold, and layers dropped by none of the samples."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(3 * 4 * 4, 10)
        self.blocks = nn.ModuleList(MixerBlock(9, 10) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(10), nn.Linear(10, 5)

    def forward(self, x: Tensor) -> Tensor:
        patches = x.unfold(2, 4, 4).unfold(3, 4, 4)  # b, c, rows, columns, 4, 4
        x = self.embed(patches.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(dim=1))


@module
def mlp_mixer() -> Trial:
    """MLP-Mixer with targets that two classes share, as mixup makes them."""
    share = uniform(4, 1)
    one_hot = F.one_hot(classes(5, 4), 5) * share + F.one_hot(integers(5, 4), 5) * (1 - share)
    return supervised(Mixer, 4, nn.CrossEntropyLoss(), one_hot, x=normal(4, 3, 12, 12))


class SpatialTransformer(nn.Module):
    """A classifier of images that a small net turns upright."""

    def __init__(self) -> None:
        super().__init__()
        self.localize = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.MaxPool2d(2, stride=2), nn.ReLU(True), nn.Conv2d(4, 6, 3), nn.ReLU(True)
        )
        self.theta = nn.Sequential(nn.Linear(6 * 3 * 3, 8), nn.ReLU(True), nn.Linear(8, 6))
        self.theta[2].weight.data.normal_(0, 0.05)
        self.theta[2].bias.data.copy_(torch.tensor([1, 0, 0, 0, 1, 0], dtype=torch.float))
        self.conv, self.fc = nn.Conv2d(1, 4, 3), nn.Linear(4 * 5 * 5, 4)

    def forward(self, x: Tensor) -> Tensor:
        theta = self.theta(self.localize(x).view(-1, 6 * 3 * 3)).view(-1, 2, 3)
        grid = F.affine_grid(theta, list(x.size()), align_corners=False)
        x = F.grid_sample(x, grid, align_corners=False)
        x = F.relu(F.max_pool2d(self.conv(x), 2))
        return F.log_softmax(self.fc(x.flatten(1)), dim=1)


@module
def spatial_transformer() -> Trial:
    """Spatial transformer network with an affine grid."""
    return supervised(SpatialTransformer, 3, F.nll_loss, classes(4, 3), x=normal(3, 1, 12, 12))


def giou(boxes: Tensor, others: Tensor) -> Tensor:
    """Generalized intersection over union of boxes by their corners."""
    low, high = torch.max(boxes[..., :2], others[..., :2]), torch.min(boxes[..., 2:], others[..., 2:])
    inner = (high - low).clamp(min=0).prod(-1)
    area, other = ((b[..., 2:] - b[..., :2]).prod(-1) for b in (boxes, others))
    union = area + other - inner
    low, high = torch.min(boxes[..., :2], others[..., :2]), torch.max(boxes[..., 2:], others[..., 2:])
    hull = (high - low).clamp(min=0).prod(-1)
    return inner / union.clamp(min=1e-6) - (hull - union) / hull.clamp(min=1e-6)


class Detector(nn.Module):
    """Scores and distances to four sides for each cell: focal loss, smooth L1, and GIoU where a box is."""

    def __init__(self, count: int = 3) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1),
            nn.GroupNorm(2, 8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, 2, 1),
            nn.GroupNorm(2, 8),
            nn.ReLU(),
        )
        self.classes, self.sides = nn.Conv2d(8, count, 1), nn.Conv2d(8, 4, 1)
        self.scale, self.count = nn.Parameter(torch.ones(())), count
        rows, columns = torch.meshgrid(torch.arange(3), torch.arange(3), indexing="ij")
        self.register_buffer("centers", (torch.stack([columns, rows], -1).reshape(-1, 2) + 0.5) * 4)

    def forward(self, image: Tensor, labels: Tensor, boxes: Tensor) -> Tensor:
        features = self.body(image)
        scores = self.classes(features).flatten(2).transpose(1, 2)
        sides = torch.exp(self.scale * self.sides(features)).flatten(2).transpose(1, 2) * 4
        predicted = torch.cat([self.centers - sides[..., :2], self.centers + sides[..., 2:]], dim=-1)
        positive = labels < self.count  # the last label is the background
        one_hot = F.one_hot(labels, self.count + 1)[..., : self.count].float()
        count = positive.sum().clamp(min=1)
        p = torch.sigmoid(scores)
        ce = F.binary_cross_entropy_with_logits(scores, one_hot, reduction="none")
        weight = (0.25 * one_hot + 0.75 * (1 - one_hot)) * ((1 - p) * one_hot + p * (1 - one_hot)) ** 2
        focal = (weight * ce).sum() / count
        near = F.smooth_l1_loss(predicted, boxes, beta=1.0, reduction="none").sum(-1)
        overlap = ((1 - giou(predicted, boxes)) * positive).sum() / count
        return focal + 0.1 * (near * positive).sum() / count + overlap


@module
def box_detector() -> Trial:
    """One-stage detector without anchors."""
    corner = uniform(2, 9, 2) * 6
    boxes = torch.cat([corner, corner + 1 + 5 * uniform(2, 9, 2, seed=5)], -1)
    return own_loss(Detector, 2, image=normal(2, 3, 12, 12), labels=integers(4, 2, 9), boxes=boxes)


class DilatedSegmenter(nn.Module):
    """Atrous pyramid, whose scores are made as large as the image."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1, bias=False), nn.BatchNorm2d(6), nn.ReLU())
        self.branches = nn.ModuleList(nn.Conv2d(6, 4, 3, padding=r, dilation=r) for r in (1, 2, 3))
        self.pooled, self.head = nn.Conv2d(6, 4, 1), nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x)
        image = F.interpolate(self.pooled(F.adaptive_avg_pool2d(y, 1)), size=y.shape[-2:], mode="nearest")
        y = self.head(F.relu(torch.cat([*(branch(y) for branch in self.branches), image], 1)))
        return F.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False)


def dice_and_focal(scores: Tensor, masks: Tensor) -> Tensor:
    """Dice of each mask, soft IoU, and the focal cross entropy."""
    p, axes = scores.sigmoid(), (2, 3)
    inner, total = (p * masks).sum(axes), p.sum(axes) + masks.sum(axes)
    dice, iou = 1 - (2 * inner + 1) / (total + 1), 1 - (inner + 1) / (total - inner + 1)
    ce = F.binary_cross_entropy_with_logits(scores, masks, reduction="none", pos_weight=torch.tensor(2.0))
    focal = ((1 - torch.exp(-ce)) ** 2 * ce).mean()
    return dice.mean() + iou.mean() + focal


@module
def mask_segmentation() -> Trial:
    """Masks by an atrous pyramid, with dice, IoU and focal loss."""
    masks = (uniform(2, 2, 12, 12) > 0.6).float()
    return supervised(DilatedSegmenter, 2, dice_and_focal, masks, x=normal(2, 3, 12, 12))


def squash(x: Tensor, dim: int = -1) -> Tensor:
    """Shorten vectors to lengths below one."""
    square = (x**2).sum(dim, keepdim=True)
    return square / (1 + square) * x / torch.sqrt(square + 1e-8)


class Capsules(nn.Module):
    """Primary capsules, and classes by three rounds of routing."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.primary = nn.Conv2d(1, 8, 3), nn.Conv2d(8, 2 * 4, 3, 2)
        self.weight = nn.Parameter(0.3 * torch.randn(3, 2 * 4 * 4, 6, 4))

    def forward(self, image: Tensor, labels: Tensor) -> Tensor:
        x = self.primary(F.relu(self.conv(image)))
        u = squash(x.view(len(x), 2, 4, -1).permute(0, 1, 3, 2).reshape(len(x), -1, 4))
        votes = (self.weight @ u[:, None, :, :, None]).squeeze(-1)  # batch, classes, capsules, 6
        stopped, agreement = votes.detach(), torch.zeros(*votes.shape[:3], 1)
        for last in (False, False, True):
            share = F.softmax(agreement, dim=1)
            v = squash((share * (votes if last else stopped)).sum(2))
            if not last:
                agreement = agreement + torch.matmul(stopped, v.unsqueeze(-1))
        lengths = v.norm(dim=-1)
        one_hot = torch.eye(3)[labels]
        left, right = F.relu(0.9 - lengths) ** 2, F.relu(lengths - 0.1) ** 2
        return (one_hot * left + 0.5 * (1 - one_hot) * right).sum(-1).mean()


@module
def capsules() -> Trial:
    """Capsule network with dynamic routing and the margin loss."""
    return own_loss(Capsules, 3, image=normal(3, 1, 11, 11), labels=classes(3, 3))


class StyledDecoder(nn.Module):
    """A learned map, drawn by convolutions whose kernels and features a style scales."""

    def __init__(self) -> None:
        super().__init__()
        self.constant = nn.Parameter(torch.randn(1, 6, 4, 4))
        self.style = nn.Sequential(nn.Linear(5, 8), nn.LeakyReLU(0.2), nn.Linear(8, 8))
        self.weight, self.scale = nn.Parameter(0.2 * torch.randn(1, 8, 6, 3, 3)), nn.Linear(8, 6)
        self.film, self.out = nn.Linear(8, 16), nn.Conv2d(2, 3, 3, padding=1)

    def forward(self, z: Tensor) -> Tensor:
        b, w = len(z), self.style(F.normalize(z, dim=1))
        kernel = self.weight * (1 + self.scale(w)).view(b, 1, 6, 1, 1)
        kernel = kernel * torch.rsqrt(kernel.pow(2).sum([2, 3, 4], keepdim=True) + 1e-8)
        x = self.constant.repeat(b, 1, 1, 1).view(1, b * 6, 4, 4)
        x = F.conv2d(x, kernel.view(b * 8, 6, 3, 3), padding=1, groups=b).view(b, 8, 4, 4)
        gamma, beta = self.film(w).chunk(2, dim=1)
        x = F.leaky_relu((1 + gamma[..., None, None]) * F.instance_norm(x) + beta[..., None, None], 0.2)
        return torch.tanh(self.out(F.pixel_shuffle(x, 2)))


@module
def styled_decoder() -> Trial:
    """Decoder whose style modulates its kernels (StyleGAN) and features (FiLM)."""
    return supervised(StyledDecoder, 2, "l1", normal(2, 3, 8, 8, seed=7).tanh(), z=normal(2, 5))
