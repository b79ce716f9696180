"""Modules that keep tables outside themselves: a trace leaves nothing in functions' caches that a later run reads."""

import functools
import importlib
from collections.abc import Callable
from typing import Any

import pytest

from deployer.core.errors import GraphProblem

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
nn, F = torch.nn, torch.nn.functional
X, Y = torch.randn(24, 6, generator=torch.Generator().manual_seed(1)), torch.arange(24) % 3


@functools.cache
def table_of(width: int) -> tuple[Any, Any]:
    """Two rows of numbers."""
    places = torch.arange(width, dtype=torch.float32)
    return places.cos(), places.sin()


@functools.lru_cache(maxsize=4)
def named_tables(width: int) -> dict[str, list[Any]]:
    """The same rows in containers, behind a cache of limited size."""
    return {"cos": [table_of.__wrapped__(width)[0]], "sin": [table_of.__wrapped__(width)[1]]}


class Turned(nn.Module):
    """A layer behind a table that `rows` gives for a width."""

    def __init__(self, rows: Callable[[int], Any]) -> None:
        """One layer."""
        super().__init__()
        self.layer, self.rows = nn.Linear(6, 3), rows

    def forward(self, x: Any) -> Any:
        """Scaled by the table."""
        return self.layer(x * self.rows(x.shape[1]))


class Cached(Turned):
    """A table behind a cached method."""

    @functools.cache  # noqa: B019
    def own(self, width: int) -> Any:
        """A row."""
        return torch.arange(width).cos()

    def forward(self, x: Any) -> Any:
        """Scaled by the table."""
        return self.layer(x * self.own(x.shape[1]))


MODULES: dict[str, Callable[[], Any]] = {
    "cache": lambda: Turned(lambda width: table_of(width)[0]),
    "lru_cache": lambda: Turned(lambda width: named_tables(width)["sin"][0]),
    "method": lambda: Cached(len),
}


@pytest.mark.parametrize("name", sorted(MODULES))
@pytest.mark.parametrize("eager_first", [False, True])
def test_tables_of_cached_functions(name: str, eager_first: bool) -> None:
    """Two modules train one after another, with the right gradients, and both run in PyTorch before and behind."""
    table_of.cache_clear()
    named_tables.cache_clear()
    for _ in range(2):
        torch.manual_seed(3)
        module = MODULES[name]()
        expected = [p.detach().clone() for p in module.parameters()] if eager_first else []
        if eager_first:
            module(X)
        front.train(module, (X, Y), F.cross_entropy, "sgd", lr=0.1, batch_size=24, epochs=1)
        assert type(module(X)) is torch.Tensor
        torch.manual_seed(3)
        twin = MODULES[name]()
        assert all(torch.equal(a, b) for a, b in zip(expected, twin.parameters(), strict=False))
        F.cross_entropy(twin(X), Y).backward()
        for ours, parameter in zip(module.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(ours.detach(), parameter.detach() - 0.1 * parameter.grad)


def test_a_cache_is_emptied_where_a_trace_fails() -> None:
    """Forward raises behind the cached call; the table has numbers afterwards."""
    table_of.cache_clear()

    def rows(width: int) -> Any:
        table_of(width)
        raise ValueError("not today")

    with pytest.raises(GraphProblem, match="not today"):
        front.compile_step(Turned(rows), F.cross_entropy, "sgd", (X, Y), lr=0.1)
    assert type(table_of(6)[0]) is torch.Tensor


def test_a_table_in_a_dictionary_of_python() -> None:
    """A trace leaves a tensor without numbers in it, which the next trace refuses by its shape."""
    tables: dict[int, Any] = {}

    def rows(width: int) -> Any:
        if width not in tables:
            tables[width] = torch.arange(width).cos()
        return tables[width]

    given = lambda module, x, y: F.cross_entropy(module(x), y), {"x": X, "y": Y}
    front.capture_step(Turned(rows), *given)
    with pytest.raises(GraphProblem, match="left outside the module") as caught:
        front.capture_step(Turned(rows), *given)
    assert "[6]" in str(caught.value)
    assert "register_buffer" in str(caught.value)
