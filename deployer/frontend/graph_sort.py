"""Producers, execution order and liveness of nodes in a raw graph."""

import difflib
import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from deployer.core.errors import GraphProblem
from deployer.core.ir import Node
from deployer.frontend.raw_graph import RawGraph


def check_producers(graph: RawGraph) -> None:
    """Raise GraphProblem where a value has two producers or none, or a graph input or output has no name of its own."""
    producers: dict[str, str] = {}
    for kind, names in (("input", [item.name for item in graph.inputs]), ("output", graph.outputs)):
        if "" in names:
            fault = f"{kind} {list(names).index('')} of the {graph.name} graph has no name"
            raise GraphProblem(fault, hint="give it a name; in ONNX an empty name means an omitted tensor")
    for item in graph.inputs:
        if item.name in producers:
            raise GraphProblem(
                f"graph input {item.name!r} of the {graph.name} graph is defined twice", hint="remove one"
            )
        producers[item.name] = "a graph input"
    for name in graph.constants:
        producers.setdefault(name, "a constant")
    for node in graph.nodes:
        for name in filter(None, node.outputs):
            if name in producers:
                raise GraphProblem(
                    f"{name!r} has two producers in the {graph.name} graph",
                    [("first", producers[name]), ("second", f"node {node.name!r} ({node.op})")],
                    "rename one of them",
                )
            producers[name] = f"node {node.name!r} ({node.op})"
    for node in graph.nodes:
        for name in filter(None, node.inputs):
            if name not in producers:
                raise _no_producer(graph.name, f"node {node.name!r} ({node.op})", name, producers)
    for name in graph.outputs:
        if name not in producers:
            raise _no_producer(graph.name, "the list of graph outputs", name, producers)


def _no_producer(graph: str, consumer: str, name: str, names: Iterable[str]) -> GraphProblem:
    near = difflib.get_close_matches(name, list(names), 1)
    hint = f"rename it to {near[0]!r}, or produce it" if near else "add a node, an initializer or a graph input with it"
    return GraphProblem(f"{name!r} has no producer in the {graph} graph", [("consumer", consumer)], hint)


def topological(graph: RawGraph) -> tuple[Node, ...]:
    """The nodes with producers first, else in file order; GraphProblem names the nodes of a cycle."""
    nodes = graph.nodes
    producer = {name: i for i, node in enumerate(nodes) for name in node.outputs if name}
    before = [sorted({producer[n] for n in node.inputs if n in producer}) for node in nodes]
    after: list[list[int]] = [[] for _ in nodes]
    for i, sources in enumerate(before):
        for source in sources:
            after[source].append(i)
    waits = [len(sources) for sources in before]
    ready = [i for i, count in enumerate(waits) if count == 0]
    order: list[int] = []
    while ready:
        i = heapq.heappop(ready)
        order.append(i)
        for follower in after[i]:
            waits[follower] -= 1
            if waits[follower] == 0:
                heapq.heappush(ready, follower)
    if len(order) < len(nodes):
        raise _cycle(graph, before, [i for i, count in enumerate(waits) if count])
    return tuple(nodes[i] for i in order)


def _cycle(graph: RawGraph, before: Sequence[Sequence[int]], stuck: Sequence[int]) -> GraphProblem:
    """The error for a cycle: follows producers from a node until one repeats, and lists them producer first."""
    unfinished, path = set(stuck), [stuck[0]]
    while True:
        step = next(i for i in before[path[-1]] if i in unfinished)
        if step in path:
            cycle = path[path.index(step) :][::-1]
            break
        path.append(step)
    start = cycle.index(min(cycle))
    names = [graph.nodes[i].name for i in (*cycle[start:], *cycle[:start], cycle[start])]
    return GraphProblem(
        f"the {graph.name} graph has a cycle of {len(cycle)} nodes",
        [("cycle", " -> ".join(names))],
        "cut it: a node cannot read what is made from its own output",
    )


def live_nodes(
    nodes: Sequence[Node],
    outputs: Collection[str],
    storage: Mapping[str, str],
    effect: Callable[[Node], bool],
) -> tuple[Node, ...]:
    """The nodes that `outputs` or nodes with a side effect depend on, these included, in the same order.

    `storage` maps a view to the tensor it is a view of; `effect` tells whether a node has a side effect.
    """
    live_names = set(closure(outputs, storage))
    live: list[Node] = []
    for node in reversed(nodes):
        if live_names.isdisjoint(filter(None, node.outputs)) and not effect(node):
            continue
        live.append(node)
        live_names.update(closure(filter(None, node.inputs), storage))
    return tuple(reversed(live))


def closure(names: Iterable[str], storage: Mapping[str, str]) -> list[str]:
    """The names and all tensors along their storage, each once."""
    members: dict[str, None] = {}
    for name in names:
        while name not in members:
            members[name] = None
            name = storage.get(name, name)
    return list(members)
