"""Schedule: the order of the steps, with each operator's access and kernel arguments asked for once."""

from deployer.ir import Graph, Node, Program
from deployer.operator import operator_of
from deployer.plan import Options, Schedule, Step


def run(program: Program, options: Options) -> Schedule:
    """Order each graph so that what only updates memory in place runs as soon as its inputs exist.

    A weight's gradient then dies at its accumulator instead of living to the end of the backward pass.
    """
    types = {name: tensor.type for name, tensor in program.tensors.items()}
    steps: list[Step] = []
    for graph in program.graphs:
        warm: set[str] = set()
        for node in _ordered(program, graph):
            operator = operator_of(node)
            assert operator.kernel is not None, f"{node.op} was not lowered"
            access = operator.access(node, types)
            args, cold = operator.args(node, access), operator.kernel.symbol not in warm
            warm.add(operator.kernel.symbol)
            steps.append(Step(len(steps), graph.name, node, operator.kernel, access, args, cold))
    return Schedule(options, program, tuple(steps))


def _ordered(program: Program, graph: Graph) -> list[Node]:
    """Graph order, each in-place sink moved up to right behind the last node it needs."""
    positions = {name: i for i, node in enumerate(graph.nodes) for name in node.outputs if name}

    def key(item: tuple[int, Node]) -> tuple[int, int, int]:
        index, node = item
        if not _is_sink(program, node):
            return index, 0, index
        needs = [_producer(program, positions, name) for name in node.inputs if name]
        needs += [_last_reader(program, graph.nodes[:index], program.storage(n)) for n in node.outputs if n]
        return max(needs), 1, index

    return [node for _, node in sorted(enumerate(graph.nodes), key=key)]


def _is_sink(program: Program, node: Node) -> bool:
    """Whether all a node does is update memory in place that outlives the graph."""
    inplace = operator_of(node).inplace
    owners = [program.tensors[program.storage(n)].role for i, n in enumerate(node.outputs) if n and i in inplace]
    return bool(owners) and all(role in ("weight", "accumulator") for role in owners)


def _producer(program: Program, positions: dict[str, int], name: str) -> int:
    """Index of the node that computes a value, seen through views; -1 where it comes from outside."""
    while name not in positions and program.tensors[name].storage != name:
        name = program.tensors[name].storage
    return positions.get(name, -1)


def _last_reader(program: Program, earlier: tuple[Node, ...], storage: str) -> int:
    """Index of the last of these nodes that reads a storage, -1 where none does."""
    for index in reversed(range(len(earlier))):
        if any(name and program.storage(name) == storage for name in earlier[index].inputs):
            return index
    return -1
