"""Attention that modules write out: trained as by PyTorch, and one operator where its masks are known."""

from collections.abc import Callable
from typing import Any

import pytest

from DeployTest.front.models.test_attention import COMPOSITE, lower, operators
from DeployTest.front.test_gradients import CLASSES, WIDTH, assert_alike, batches

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn, F = torch.nn, torch.nn.functional
LENGTH, HEADS, DEPTH = 5, 4, 3
LEAST = torch.finfo(torch.float32).min
INFINITY = float("inf")


class Written(nn.Module):
    """Queries, keys and values from three layers, an attention that a function writes out, and scores."""

    def __init__(self, attends: Callable[..., Any], shared: int = HEADS) -> None:
        super().__init__()
        self.attends, self.shared = attends, shared
        self.q, self.k, self.v = (nn.Linear(WIDTH, n * LENGTH * DEPTH) for n in (HEADS, shared, shared))
        self.head = nn.Linear(HEADS * LENGTH * DEPTH, CLASSES)
        self.bias = nn.Parameter(0.1 * torch.randn(LENGTH, LENGTH))
        self.register_buffer("ones", torch.ones(7, 7).tril().view(1, 1, 7, 7))
        self.register_buffer("sees", lower(7, 7), persistent=False)
        self.register_buffer("adds", torch.full((1, 1, 7, 7), -INFINITY).triu(1), persistent=False)
        self.register_buffer("count", torch.zeros(LENGTH, LENGTH))

    def forward(self, x: Any) -> Any:
        q, k, v = (
            layer(x).view(len(x), LENGTH, n, DEPTH).transpose(1, 2)
            for layer, n in ((self.q, HEADS), (self.k, self.shared), (self.v, self.shared))
        )
        y = self.attends(self, q, k, v)
        y = y.transpose(1, 2).reshape(len(x), -1) if y.dim() == 4 else y.reshape(len(x), -1)
        return self.head(y)


Mask = Callable[[Any, Any], Any]
"""(module, scores) -> masked scores."""


def masked(mask: Mask, before: float = DEPTH**-0.5) -> Callable[..., Any]:
    """The usual way to write attention, with one of many masks."""
    return lambda m, q, k, v: F.softmax(mask(m, (q @ k.transpose(-2, -1)) * before), dim=-1) @ v


def _written_in_place(m: Any, a: Any) -> Any:
    a = a.clone()
    a.masked_fill_(~m.sees[:5, :5], -INFINITY)
    return a


def _made_by_steps(m: Any, a: Any) -> Any:
    mask = torch.zeros(5, 5)
    mask[torch.ones(5, 5).triu(1).bool()] = -INFINITY
    return a + mask


def _local(m: Any, a: Any) -> Any:
    distance = torch.arange(5)[:, None] - torch.arange(5)[None, :]
    return a.masked_fill((distance < 0) | (distance > 2), -INFINITY)


def _by_parts(m: Any, a: Any) -> Any:
    return a.masked_fill(~m.sees[:5, :5], -INFINITY) + torch.linspace(-1, 1, 25).view(5, 5)


MASKS: dict[str, Mask] = {
    "none": lambda m, a: a,
    "fill by a buffer": lambda m, a: a.masked_fill(m.ones[:, :, :5, :5] == 0, -INFINITY),
    "fill by a bool": lambda m, a: a.masked_fill(~m.sees[:5, :5], -INFINITY),
    "fill of the least": lambda m, a: a.masked_fill(~m.sees[:5, :5], torch.finfo(a.dtype).min),
    "fill of a billion": lambda m, a: torch.masked_fill(a, torch.ones_like(a[0, 0]).triu(1) > 0, -1e9),
    "fill in place": _written_in_place,
    "fill by names": lambda m, a: a.masked_fill(mask=torch.tril(torch.ones(5, 5)) == 0, value=-INFINITY),
    "where": lambda m, a: torch.where(m.sees[:5, :5], a, -INFINITY),
    "where not": lambda m, a: torch.where(~m.sees[:5, :5], torch.tensor(LEAST), a),
    "where a full tensor": lambda m, a: torch.where(m.sees[:5, :5], a, torch.full([], LEAST)),
    "sum with a buffer": lambda m, a: a + m.adds[:, :, :5, :5],
    "sum with the least": lambda m, a: torch.triu(torch.full((5, 5), LEAST), 1) + a,
    "sum of a product": lambda m, a: a + (1 - m.ones[..., :5, :5]) * -1e10,
    "sum of places": lambda m, a: a.add(torch.zeros(5, 5).masked_fill(~m.sees[:5, :5], -INFINITY)),
    "written by places": _made_by_steps,
    "window": _local,
    "numbers besides": _by_parts,
}
"""Masks that are known while the module is traced."""


@pytest.mark.parametrize("name", MASKS)
def test_masks_that_are_known(name: str, tmp_path: Any) -> None:
    """The step is one operator with its gradient; losses and weights are PyTorch's."""
    found = operators(Written(masked(MASKS[name])), tmp_path)
    assert (found[COMPOSITE], found[f"{COMPOSITE}Grad"]) == (1, 1)
    assert not {"Softmax", "Where", "Exp"} & set(found)
    assert_alike(lambda: Written(masked(MASKS[name])), *batches())


def _repeated(x: Any) -> Any:
    n = HEADS // x.shape[1]
    return x[:, :, None, :, :].expand(x.shape[0], x.shape[1], n, *x.shape[2:]).reshape(x.shape[0], -1, *x.shape[2:])


def _tokens_first(x: Any) -> Any:
    x = x.transpose(1, 2)
    return x.repeat_interleave(HEADS // x.shape[2], dim=2).transpose(1, 2)


def _unsqueezed(x: Any) -> Any:
    return torch.flatten(x.unsqueeze(2).repeat(1, 1, HEADS // x.shape[1], 1, 1), 1, 2)


def _five_axes(m: Any, q: Any, k: Any, v: Any) -> Any:
    groups = q.view(len(q), m.shared, -1, LENGTH, DEPTH)
    p = (groups @ k.unsqueeze(2).transpose(-1, -2) / 2).softmax(-1)
    return (p @ v.unsqueeze(2)).flatten(1, 2)


def _equations(m: Any, q: Any, k: Any, v: Any) -> Any:
    k, v = (x.repeat_interleave(HEADS // m.shared, 1).permute(0, 2, 1, 3) for x in (k, v))
    a = torch.einsum("bthd,bshd->bhts", q.permute(0, 2, 1, 3), k) * 0.5
    a = a.masked_fill(~m.sees[:5, :5], -INFINITY)
    return torch.einsum("bhts,bshd->bthd", a.softmax(-1), v).transpose(1, 2)


def _equations_of_one_head(m: Any, q: Any, k: Any, v: Any) -> Any:
    a = torch.einsum("b h i d, b j d -> b h i j", q, k.squeeze(1)) + m.adds[0, 0, :5, :5]
    return torch.einsum("b h i j, b j d -> b h i d", F.softmax(a, dim=-1, dtype=torch.float32), v.squeeze(1))


def _function(m: Any, q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, _repeated(k), _repeated(v), None, 0.0, True)


def _repeats(repeat: Callable[[Any], Any]) -> Callable[..., Any]:
    attends = masked(MASKS["fill by a bool"])
    return lambda m, q, k, v: attends(m, q, repeat(k), repeat(v))


GROUPS: dict[str, tuple[Callable[..., Any], int]] = {
    "interleaved": (_repeats(lambda x: x.repeat_interleave(HEADS // x.shape[1], dim=1)), 2),
    "interleaved before": (_repeats(_tokens_first), 2),
    "expanded": (_repeats(_repeated), 2),
    "repeated": (_repeats(_unsqueezed), 2),
    "one head expanded": (_repeats(lambda x: x.expand(-1, HEADS, -1, -1)), 1),
    "five axes": (_five_axes, 2),
    "equations": (_equations, 2),
    "equations of one head": (_equations_of_one_head, 1),
    "function": (_function, 2),
}
"""Ways in which several heads of queries share keys and values."""


@pytest.mark.parametrize("name", GROUPS)
def test_groups_of_heads(name: str, tmp_path: Any) -> None:
    """No key and no value is repeated, and gradients of groups are sums inside of products."""
    attends, shared = GROUPS[name]
    found = operators(Written(attends, shared), tmp_path)
    assert (found[COMPOSITE], found[f"{COMPOSITE}Grad"]) == (1, 1)
    assert not {"Expand", "Tile", "Softmax"} & set(found)
    assert found["ReduceSum"] == 4  # of biases alone
    assert_alike(lambda: Written(attends, shared), *batches())


def _counted(m: Any, a: Any) -> Any:
    m.count.add_(1)
    return a + m.count / 10


def _hidden(m: Any, a: Any) -> Any:
    mask = lower(5, 5)
    mask[1] = False
    return a.masked_fill(~mask, LEAST)


def _hooked(m: Any, a: Any) -> Any:
    a = a * 1.0
    a.register_hook(lambda g: 0.5 * g)
    return a


def _dropped(m: Any, q: Any, k: Any, v: Any) -> Any:
    return F.dropout((q @ k.mT).softmax(-1), 0.3) @ v


def _stopped(m: Any, q: Any, k: Any, v: Any) -> Any:
    with torch.no_grad():
        a = q @ k.transpose(-2, -1)
    return a.softmax(-1) @ v


def _changed(m: Any, q: Any, k: Any, v: Any) -> Any:
    p = (q @ k.transpose(-2, -1)).softmax(-1).clone()
    p[:, :, 0] = 0.25
    return p @ v


def _tiled(m: Any, q: Any, k: Any, v: Any) -> Any:
    return masked(MASKS["none"])(m, q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1))


OTHERS: dict[str, tuple[Callable[..., Any], int]] = {
    "a trained bias": (masked(lambda m, a: a + m.bias), HEADS),
    "a buffer that forward writes": (masked(_counted), HEADS),
    "a query without keys": (masked(_hidden), HEADS),
    "a small number": (masked(lambda m, a: a.masked_fill(~m.sees[:5, :5], -2.0)), HEADS),
    "a mask of scores": (masked(lambda m, a: a.masked_fill(a > 1, -INFINITY)), HEADS),
    "a hook": (masked(_hooked), HEADS),
    "another axis": (lambda m, q, k, v: (q @ k.transpose(-2, -1)).softmax(-2) @ v, HEADS),
    "a bounded score": (masked(lambda m, a: 5 * torch.tanh(a / 5)), HEADS),
    "no gradient of scores": (_stopped, HEADS),
    "shares that are written": (_changed, HEADS),
    "a product before a sum": (masked(lambda m, a: (a + m.adds[..., :5, :5]) * 2), HEADS),
}
"""Forms that stay as they are written."""


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_something_else(name: str, tmp_path: Any) -> None:
    """It is traced as PyTorch's operators, and trained as by PyTorch."""
    attends, shared = OTHERS[name]
    assert not operators(Written(attends, shared), tmp_path)[COMPOSITE]
    assert_alike(lambda: Written(attends, shared), *batches())


def test_dropped_shares_stay_apart(tmp_path: Any) -> None:
    """Dropout of shares is no part of the operator."""
    assert not operators(Written(_dropped), tmp_path)[COMPOSITE]


def _summed(equation: str) -> Callable[..., Any]:
    """Attention beside a product by an equation that is none of queries and keys."""

    def attends(m: Any, q: Any, k: Any, v: Any) -> Any:
        a, b = q.flatten(1), k.flatten(1)
        product = torch.einsum(equation, a, b[0] if ",d-" in equation else b)
        return v * torch.tanh(product.mean())

    return attends


@pytest.mark.parametrize("equation", ["bd,bd->b", "bd,d->b", "id,jd->ij", "bd,be->de", "bd,be->bde", "bd,bd->bd"])
def test_products_by_equations(equation: str) -> None:
    """Products of any two tensors, also those without a row of scores."""
    assert_alike(lambda: Written(_summed(equation)), *batches())


@pytest.mark.parametrize("how", [{"inplace": True, "p": 0.4}, {"p": 1.0}, {"p": 1.0, "inplace": True}])
def test_every_dropout_that_drops(how: dict[str, Any], tmp_path: Any) -> None:
    """Shares that are dropped in place, or all of them, are not those of the operator."""

    def attends(m: Any, q: Any, k: Any, v: Any) -> Any:
        return F.dropout((q @ k.transpose(-2, -1)).softmax(-1).clone(), training=m.training, **how) @ v

    assert not operators(Written(attends).train(), tmp_path)[COMPOSITE]


def test_dropout_that_drops_nothing(tmp_path: Any) -> None:
    """It is the identity."""

    def attends(m: Any, q: Any, k: Any, v: Any) -> Any:
        return F.dropout((q @ k.transpose(-2, -1)).softmax(-1), 0.0, m.training) @ v

    assert operators(Written(attends).train(), tmp_path)[COMPOSITE] == 1


def test_attention_in_a_checkpoint() -> None:
    """Attention that is computed again for its gradient is not replaced, so that both are the same."""

    def part(q: Any, k: Any, v: Any) -> Any:
        return (q @ k.transpose(-2, -1)).masked_fill(~lower(LENGTH, LENGTH), -INFINITY).softmax(-1) @ v

    def attends(m: Any, q: Any, k: Any, v: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(part, q, k, v, use_reentrant=False)

    assert_alike(lambda: Written(attends), *batches())


def test_heads_in_another_order_are_no_groups() -> None:
    """An index with a new axis that also orders heads."""

    def attends(m: Any, q: Any, k: Any, v: Any) -> Any:
        def spread(x: Any) -> Any:
            return x[:, [1, 0], None].expand(-1, -1, 2, -1, -1).reshape(len(x), HEADS, LENGTH, DEPTH)

        return (q @ spread(k).transpose(-2, -1)).softmax(-1) @ spread(v)

    assert_alike(lambda: Written(attends, 2), *batches())


@pytest.mark.parametrize("place", ["scores", "shares", "keys"])
def test_hooks_on_what_lies_between(place: str) -> None:
    """A hook on any tensor on the way changes its gradient, also one of a tensor that another was made of before."""

    def attends(m: Any, q: Any, k: Any, v: Any) -> Any:
        opened = k[:, :, None]
        keys = opened.expand(-1, -1, 2, -1, -1).reshape(len(k), HEADS, LENGTH, DEPTH)
        values = v.repeat_interleave(2, 1)
        scores = q @ keys.transpose(-2, -1)
        shares = scores.softmax(-1)
        same = shares.clone()
        {"scores": scores, "shares": shares, "keys": opened}[place].register_hook(lambda g: g * 0.5)
        return same @ values

    assert_alike(lambda: Written(attends, 2), *batches())


def test_tiled_heads_are_no_groups() -> None:
    """Heads that repeat in turn belong to other queries than neighbours."""
    assert_alike(lambda: Written(_tiled, 2), *batches())


def test_shares_that_are_read_besides() -> None:
    """Weights of attention that the loss depends on as well have their own gradient."""

    def attends(m: Any, q: Any, k: Any, v: Any) -> Any:
        p = (q @ k.transpose(-2, -1)).softmax(-1)
        return p @ v + p.square().mean()

    assert_alike(lambda: Written(attends), *batches())
