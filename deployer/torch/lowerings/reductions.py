"""Sums, means and extremes over axes."""

import math
from collections.abc import Sequence

from deployer.torch.graph import GraphBuilder, Value, lowers


def _reduced(op: str, *names: str) -> None:
    @lowers(*names)
    def reduction(
        g: GraphBuilder, x: Value, dim: int | Sequence[int] | None = None, keepdim: bool = False, dtype: object = None
    ) -> Value:
        dims = [] if dim is None else [dim] if isinstance(dim, int) else dim
        return g.reduce(op, x, dims, keepdim)


for _op, _name in (("ReduceMean", "mean"), ("ReduceSum", "sum"), ("ReduceMax", "amax"), ("ReduceMin", "amin"),
                   ("ReduceLogSumExp", "logsumexp"), ("ReduceProd", "prod")):  # fmt: skip
    _reduced(_op, _name)


@lowers("var")
def variance(
    g: GraphBuilder,
    x: Value,
    dim: int | Sequence[int] | bool | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    correction: float | None = None,
) -> Value:
    """The mean square of what is left without the mean, times n / (n - correction)."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    dims = list(range(x.rank)) if dim is None else [x.axis(a) for a in ([dim] if isinstance(dim, int) else dim)]
    less = (1 if unbiased in (None, True) else 0) if correction is None else correction
    count = math.prod(x.shape[a] for a in dims)
    centred = g.binary("Sub", x, g.reduce("ReduceMean", x, dims, True))
    mean = g.reduce("ReduceMean", g.binary("Mul", centred, centred), dims, keepdim)
    return mean if not less else g.binary("Mul", mean, count / (count - less))


@lowers("std")
def deviation(
    g: GraphBuilder,
    x: Value,
    dim: int | Sequence[int] | bool | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    correction: float | None = None,
) -> Value:
    """The root of the variance."""
    return g.unary("Sqrt", variance(g, x, dim, unbiased, keepdim, correction))


@lowers("linalg_vector_norm")
def norm(
    g: GraphBuilder,
    x: Value,
    order: float = 2,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: object = None,
) -> Value:
    """The sum of magnitudes, or the root of the sum of squares."""
    if order not in (1, 2):
        raise g.refusal(f"the order is {order}", "1 or 2")
    return g.reduce(f"ReduceL{int(order)}", x, list(dim or ()), keepdim)
