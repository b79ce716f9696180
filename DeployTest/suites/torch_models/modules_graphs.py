"""Modules over graphs, sets and trees. Needs torch."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from DeployTest.suites.torch_models.beside import Trial
from DeployTest.suites.torch_models.modules_base import classes, integers, module, normal, own_loss, supervised, uniform

NODES, EDGES = 6, 10


def adjacency(batch: int) -> Tensor:
    """Undirected graphs as matrices of 0 and 1."""
    upper = (uniform(batch, NODES, NODES) > 0.6).float().triu(1)
    return upper + upper.transpose(1, 2)


class GraphConvolution(nn.Module):
    """Kipf and Welling's layer."""

    def __init__(self, dim: int, out: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(dim, out)), nn.Parameter(torch.zeros(out))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: Tensor, adjacent: Tensor) -> Tensor:
        own = adjacent + torch.eye(adjacent.size(-1), device=adjacent.device)
        scale = own.sum(-1).pow(-0.5)
        return scale.unsqueeze(-1) * own * scale.unsqueeze(-2) @ (x @ self.weight) + self.bias


class Gcn(nn.Module):
    """Labels of nodes, of which a mask names those that are known."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GraphConvolution(4, 8), GraphConvolution(8, 3)

    def forward(self, x: Tensor, adjacent: Tensor, labels: Tensor, known: Tensor) -> Tensor:
        h = F.dropout(F.relu(self.first(x, adjacent)), 0.0, self.training)
        scores = F.log_softmax(self.second(h, adjacent), dim=-1)
        each = F.nll_loss(scores.reshape(-1, 3), labels.reshape(-1), reduction="none")
        known = known.reshape(-1).float()
        return (each * known).sum() / known.sum()


@module
def graph_convolution() -> Trial:
    """GCN over dense adjacency, nodes labelled in part."""
    known = (uniform(2, NODES, seed=6) > 0.4).long()
    known[:, 0] = 1
    return own_loss(
        Gcn, 2, x=normal(2, NODES, 4), adjacent=adjacency(2), labels=integers(3, 2, NODES), known=known
    )  # fmt: skip


class GraphAttention(nn.Module):
    """Velickovic's layer with several heads."""

    def __init__(self, dim: int, out: int, heads: int) -> None:
        super().__init__()
        self.heads, self.out = heads, out
        self.linear = nn.Linear(dim, heads * out, bias=False)
        self.source, self.target = (
            nn.Parameter(torch.empty(1, 1, heads, out)),
            nn.Parameter(torch.empty(1, 1, heads, out)),
        )
        nn.init.xavier_normal_(self.source)
        nn.init.xavier_normal_(self.target)

    def forward(self, x: Tensor, adjacent: Tensor) -> Tensor:
        b, n, _ = x.shape
        h = self.linear(x).view(b, n, self.heads, self.out)
        source, target = (h * self.source).sum(-1), (h * self.target).sum(-1)
        e = F.leaky_relu(source.unsqueeze(2) + target.unsqueeze(1), 0.2)
        linked = (adjacent + torch.eye(n)).unsqueeze(-1) > 0
        alpha = torch.softmax(e.masked_fill(~linked, -1e9), dim=2)
        return torch.einsum("bijh,bjhf->bihf", alpha, h).reshape(b, n, -1)


class Gat(nn.Module):
    """Two layers, and a label of the graph from gated means."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GraphAttention(4, 3, 2), GraphAttention(6, 4, 1)
        self.gate, self.head = nn.Linear(4, 1), nn.Linear(4, 3)

    def forward(self, x: Tensor, adjacent: Tensor) -> Tensor:
        h = self.second(F.elu(self.first(x, adjacent)), adjacent)
        return self.head((torch.sigmoid(self.gate(h)) * h).mean(dim=1))


@module
def graph_attention() -> Trial:
    """GAT over dense adjacency."""
    return supervised(Gat, 3, "cross_entropy", classes(3, 3), x=normal(3, NODES, 4), adjacent=adjacency(3))


class MessagePassing(nn.Module):
    """Equivariant messages along edges: features and positions change by sums over a node's edges."""

    def __init__(self, dim: int = 5) -> None:
        super().__init__()
        self.embed = nn.Embedding(4, dim)
        self.message = nn.Sequential(nn.Linear(2 * dim + 1, 8), nn.SiLU(), nn.Linear(8, 8), nn.SiLU())
        self.move = nn.Sequential(nn.Linear(8, 8), nn.SiLU(), nn.Linear(8, 1, bias=False))
        self.update, self.energy = nn.GRUCell(8, dim), nn.Linear(dim, 1)

    def forward(self, atoms: Tensor, positions: Tensor, edges: Tensor) -> Tensor:
        b, n = atoms.shape
        offset = torch.arange(b).unsqueeze(1) * n  # all graphs of a batch are one
        source, target = (edges[:, 0] + offset).flatten(), (edges[:, 1] + offset).flatten()
        h, x = self.embed(atoms).flatten(0, 1), positions.flatten(0, 1)
        for _ in range(2):
            apart = x[source] - x[target]
            square = apart.pow(2).sum(-1, keepdim=True)
            m = self.message(torch.cat([h[source], h[target], square], dim=-1))
            x = x.index_add(0, target, self.move(m) * apart / (1 + square.sqrt()))
            h = self.update(torch.zeros(b * n, m.shape[-1]).index_add_(0, target, m), h)
        return self.energy(h).view(b, n).sum(1) + 0.1 * x.view(b, n, 3).var(dim=1).sum(-1)


@module
def message_passing() -> Trial:
    """Equivariant network over lists of edges."""
    source = integers(NODES, 2, EDGES)
    edges = torch.stack([source, (source + integers(NODES, 2, EDGES, low=1, seed=7)) % NODES], dim=1)
    return supervised(
        MessagePassing, 2, "smooth_l1", normal(2, seed=11), atoms=integers(4, 2, NODES, seed=5),
        positions=normal(2, NODES, 3), edges=edges,
    )  # fmt: skip


class Sage(nn.Module):
    """GraphSAGE's means and maxima over neighbours, by scattering."""

    def __init__(self, dim: int, out: int) -> None:
        super().__init__()
        self.own, self.mean, self.most = nn.Linear(dim, out), nn.Linear(dim, out), nn.Linear(dim, out, bias=False)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        index = edges[:, 1].unsqueeze(-1).expand(-1, -1, x.shape[-1])
        values = x.gather(1, edges[:, 0].unsqueeze(-1).expand(-1, -1, x.shape[-1]))
        total = torch.zeros_like(x).scatter_add(1, index, values)
        count = torch.zeros_like(x).scatter_add(1, index, torch.ones_like(values)).clamp(min=1)
        most = torch.zeros_like(x).scatter_reduce(1, index, values, reduce="amax", include_self=False)
        return F.normalize(self.own(x) + self.mean(total / count) + self.most(most), p=2, dim=-1)


class LinkPrediction(nn.Module):
    """Whether nodes are linked: true edges against drawn ones."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Sage(4, 8), Sage(8, 6)

    def forward(self, x: Tensor, edges: Tensor, others: Tensor) -> Tensor:
        h = self.second(F.relu(self.first(x, edges)), edges)
        rows = torch.arange(len(h)).unsqueeze(1)
        linked = (h[rows, edges[:, 0]] * h[rows, edges[:, 1]]).sum(-1)
        apart = (h[rows, others[:, 0]] * h[rows, others[:, 1]]).sum(-1)
        return -F.logsigmoid(linked).mean() - F.logsigmoid(-apart).mean()


@module
def graph_sage() -> Trial:
    """GraphSAGE with negative samples."""
    pairs = integers(NODES, 2, 2, EDGES), integers(NODES, 2, 2, EDGES, seed=8)
    return own_loss(LinkPrediction, 2, x=normal(2, NODES, 4), edges=pairs[0], others=pairs[1])


class SetAttention(nn.Module):
    """Lee's block of attention between sets."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, 2, batch_first=True)
        self.norm1, self.norm2, self.linear = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor, y: Tensor, hidden: Tensor | None = None) -> Tensor:
        h = self.norm1(x + self.attention(x, y, y, key_padding_mask=hidden, need_weights=False)[0])
        return self.norm2(h + F.relu(self.linear(h)))


class SetTransformer(nn.Module):
    """Induced points, seeds, and DeepSets' masked sum beside them."""

    def __init__(self, dim: int = 6) -> None:
        super().__init__()
        self.embed, self.points = nn.Linear(3, dim), nn.Parameter(torch.randn(1, 2, dim))
        self.seeds = nn.Parameter(torch.randn(1, 2, dim))
        self.inward, self.outward, self.pool = SetAttention(dim), SetAttention(dim), SetAttention(dim)
        self.phi = nn.Sequential(nn.Linear(3, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.head = nn.Linear(3 * dim, 4)

    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        hidden = torch.arange(x.shape[1]).unsqueeze(0) >= count.unsqueeze(1)
        h = self.embed(x)
        induced = self.inward(self.points.expand(len(x), -1, -1), h, hidden)
        h = self.pool(self.seeds.expand(len(x), -1, -1), self.outward(h, induced), hidden)
        total = self.phi(x).masked_fill(hidden.unsqueeze(-1), 0.0).sum(1)
        return self.head(torch.cat([h.flatten(1), total], dim=-1))


@module
def set_transformer() -> Trial:
    """Set transformer and DeepSets over sets of several sizes."""
    inputs = {"x": normal(3, 7, 3), "count": integers(8, 3, low=2)}
    return supervised(SetTransformer, 3, "cross_entropy", classes(4, 3), **inputs)


class TreeLstm(nn.Module):
    """Tai's child-sum cell over trees whose parents come after their children."""

    def __init__(self, dim: int = 4, hidden: int = 5) -> None:
        super().__init__()
        self.embed, self.hidden = nn.Embedding(8, dim), hidden
        self.iou, self.iou_h = nn.Linear(dim, 3 * hidden), nn.Linear(hidden, 3 * hidden, bias=False)
        self.f, self.f_h = nn.Linear(dim, hidden), nn.Linear(hidden, hidden, bias=False)
        self.head = nn.Linear(hidden, 3)

    def forward(self, words: Tensor, parents: Tensor) -> Tensor:
        x, (b, n) = self.embed(words), words.shape
        hs, cs = [], []
        for node in range(n):
            total, kept = torch.zeros(b, self.hidden), torch.zeros(b, self.hidden)
            for child in range(node):
                is_child = (parents[:, child] == node).unsqueeze(-1)
                total = total + torch.where(is_child, hs[child], torch.zeros(()))
                gate = torch.sigmoid(self.f(x[:, node]) + self.f_h(hs[child]))
                kept = kept + gate * cs[child] * is_child
            i, o, u = (self.iou(x[:, node]) + self.iou_h(total)).chunk(3, dim=-1)
            c = torch.sigmoid(i) * torch.tanh(u) + kept
            cs.append(c)
            hs.append(torch.sigmoid(o) * torch.tanh(c))
        return self.head(hs[-1])


@module
def tree_lstm() -> Trial:
    """Child-sum tree LSTM; parents come as data."""
    parents = torch.stack([integers(6, 3, low=i + 1, seed=20 + i) for i in range(5)], dim=1)
    words = integers(8, 3, 6)
    return supervised(TreeLstm, 3, "cross_entropy", classes(3, 3), words=words, parents=parents)
