"""Deepest stack of a program, from the frames and calls that the compiler reports of each function.

What is read is GCC's `-fcallgraph-info=su`: a file per source with a node for each function, whose label ends with the
bytes of its frame, and an edge for each call.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_NODE = re.compile(r'^node: \{ title: "([^"]+)" label: "([^"]*)"( shape : ellipse)? \}$', re.M)
_EDGE = re.compile(r'^edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"', re.M)
_FRAME = re.compile(r"\\n(\d+) bytes \(([^)]+)\)")
INDIRECT, CALLBACKS = "__indirect_call", "callbacks"
"""What the compiler calls a function that is called by its address, and what we do: the caller's own function."""


@dataclass
class CallGraph:
    """Frames in bytes and calls, by functions; `growing` are functions whose frame has no fixed size."""

    frames: dict[str, int] = field(default_factory=dict)
    calls: dict[str, list[str]] = field(default_factory=dict)
    growing: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class StackBound:
    """Bytes of the deepest chain of calls, the functions of that chain, and its unknown parts.

    `outside` are functions of other libraries and of the caller, whose frames come on top; `unbounded` says why
    there is no bound.
    """

    bytes: int
    chain: tuple[str, ...]
    outside: tuple[str, ...]
    unbounded: str = ""


def read_graph(texts: Iterable[str]) -> CallGraph:
    """The graph of all files; a static function keeps its file before its name, as the compiler writes it."""
    graph = CallGraph()
    for text in texts:
        for title, label, _ in _NODE.findall(text):
            found = _FRAME.search(label)
            if found is None:
                continue
            graph.frames[title] = int(found[1])
            graph.calls.setdefault(title, [])
            if "dynamic" in found[2] and "bounded" not in found[2]:
                graph.growing.append(title)
        for source, target in _EDGE.findall(text):
            graph.calls.setdefault(source, []).append(target)
    return graph


def deepest(graph: CallGraph, roots: Iterable[str]) -> StackBound:
    """The bound of the stack below any of the `roots`, their own frames included."""
    known: dict[str, tuple[int, tuple[str, ...]]] = {}
    outside: set[str] = set()

    def depth(name: str, above: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
        if name in above:
            raise RecursionError(f"{name} calls itself")
        if name not in graph.frames:
            outside.add(CALLBACKS if name == INDIRECT else name)
            return 0, ()
        if name not in known:
            if name in graph.growing:
                raise RecursionError(f"the frame of {name} has no fixed size")
            below = max((depth(called, (*above, name)) for called in graph.calls[name]), default=(0, ()))
            known[name] = graph.frames[name] + below[0], (name, *below[1])
        return known[name]

    try:
        total, chain = max((depth(root, ()) for root in roots), default=(0, ()))
    except RecursionError as problem:
        return StackBound(0, (), tuple(sorted(outside)), str(problem))
    return StackBound(total, chain, tuple(sorted(outside)))
