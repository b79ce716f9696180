"""The bound of the stack: chains of calls, and what has no bound."""

import pytest

from deployer.sizing.objects import deepest, read_graph

pytestmark = [pytest.mark.host]
FRAMES = {"top": 16, "src/a.c:left": 40, "right": 8, "leaf": 100}
CALLS = (("top", "src/a.c:left"), ("top", "right"), ("right", "leaf"), ("leaf", "memcpy"))


def graph(*more: str, dynamic: str = "", calls: tuple[tuple[str, str], ...] = CALLS) -> str:
    """A file as GCC writes it."""
    kinds = {name: "dynamic" if name == dynamic else "static" for name in FRAMES}
    nodes = [f'node: {{ title: "{n}" label: "{n}\\na.c:1:2\\n{b} bytes ({kinds[n]})" }}' for n, b in FRAMES.items()]
    nodes.append('node: { title: "memcpy" label: "memcpy\\nstring.h:1:2" shape : ellipse }')
    edges = [f'edge: {{ sourcename: "{a}" targetname: "{b}" label: "a.c:3:4" }}' for a, b in calls]
    return "\n".join(['graph: { title: "a.c"', *nodes, *edges, *more, "}"])


def test_deepest_chain() -> None:
    """The deepest chain is not the one with the largest frame at its begin; what is outside is named."""
    bound = deepest(read_graph([graph()]), ["top"])
    assert (bound.bytes, bound.chain) == (124, ("top", "right", "leaf"))
    assert bound.outside == ("memcpy",)
    assert not bound.unbounded


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (graph(calls=(*CALLS, ("leaf", "top"))), "calls itself"),
        (graph(dynamic="leaf"), "no fixed size"),
    ],
)
def test_no_bound(text: str, why: str) -> None:
    """Recursion and frames that grow have no bound, and it is said which."""
    bound = deepest(read_graph([text]), ["top"])
    assert why in bound.unbounded
    assert bound.bytes == 0


def test_callbacks() -> None:
    """A function that the caller gives is outside, and named."""
    bound = deepest(read_graph([graph(calls=(*CALLS, ("leaf", "__indirect_call")))]), ["top"])
    assert bound.bytes == 124
    assert bound.outside == ("callbacks", "memcpy")
