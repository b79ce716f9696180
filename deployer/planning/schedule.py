"""Scheduling: the order of the steps, each with the access and the kernel arguments of its operator."""

from collections.abc import Sequence
from dataclasses import replace

from deployer.core.cost import cost_key, cost_of
from deployer.core.ir import Graph, Node, Program
from deployer.core.operator import fused_update, operator_of
from deployer.core.plan import Options, Schedule, Step, target_of
from deployer.core.target import Target
from deployer.kernel_variants.costs import StepCosts
from deployer.lr_schedules.run_time import kernel_args


def make_schedule(program: Program, options: Options) -> Schedule:
    """Order each graph so that few bytes are live at once and nodes that only update memory in place run early.

    A weight's gradient then dies at its accumulator instead of living to the end of the backward pass.
    """
    types = {name: tensor.type for name, tensor in program.tensors.items()}
    target = target_of(options)
    steps: list[Step] = []
    codes: list[str] = []
    for graph in program.graphs:
        for node in _leanest(program, graph, options):
            operator = operator_of(node)
            assert operator.kernel is not None, f"{node.op} was not lowered"
            access = operator.access(node, types)
            args = kernel_args(node, access, target.kernel_model)
            step = Step(len(steps), graph.name, node, operator.kernel, access, args, 0)
            code, work = StepCosts(step, target).of(access.sizes)
            codes.append(cost_key(code, work.cost_class))
            steps.append(step)
    permilles = icache_miss_permille(codes, target)
    return Schedule(
        options,
        program,
        tuple(replace(s, icache_miss_permille=permille) for s, permille in zip(steps, permilles, strict=True)),
    )


def icache_miss_permille(codes: Sequence[str], target: Target) -> list[int]:
    """For each step the thousandths of its cold start that return, where graphs with these codes run in turn.

    What ran since the last step with the same code takes its place: each variant counts once, by its cold start. What
    variants of a kernel have in common counts once for all of them, and stays as long as any of them is run again.
    """
    common = {code: _common(code, target) for code in set(codes)}
    permilles = []
    for index, code in enumerate(codes):
        kernel = _kernel(code)
        others, kernels, evicting, since = set[str](), {kernel}, 0, 0
        met = False
        for other in (*reversed(codes[:index]), *reversed(codes[index:])):
            if other == code or evicting >= target.icache.fill_cycles:
                break
            met = met or _kernel(other) == kernel
            if other not in others:
                evicting += cost_of(target, other).cold - (common[other] if _kernel(other) in kernels else 0)
            since = since if met else evicting
            others.add(other)
            kernels.add(_kernel(other))
        own = max(cost_of(target, code).cold, 1)
        shared = target.icache.milli(since) * common[code]
        permilles.append((target.icache.milli(evicting) * (own - common[code]) + shared) // own)
    return permilles


def _kernel(code: str) -> str:
    """The kernel of a code, by the key of kernel and variant."""
    return code.partition(".")[0]


def _common(code: str, target: Target) -> int:
    """Cycles of a variant's cold start for code that the other variants of its kernel have, too."""
    kernel = _kernel(code)
    cold_starts = [cost.cold for key, cost in target.kernels.items() if _kernel(key) == kernel]
    return min(cold_starts, default=0) * target.icache.shared_permille // 1000 if len(cold_starts) > 1 else 0


def _leanest(program: Program, graph: Graph, options: Options) -> list[Node]:
    """The order with the lower peak of live bytes: the graph's own with its sinks moved up, or the greedy one.

    Of pass and update in one graph, small updates come together at the end, where that does not raise the peak.
    """
    own = _ordered(program, graph)
    lives = _Lives(program, own, options.updates_every_pass)
    order: Sequence[int] = range(len(own))
    order = min((order, lives.greedy()), key=lives.peak)
    if options.fuse_update:
        small_bytes = target_of(options).kernel_model.small_update_bytes
        order = min((_with_small_last(program, own, order, lives, small_bytes), order), key=lives.peak)
    return [own[i] for i in order]


def _with_small_last(
    program: Program, nodes: Sequence[Node], order: Sequence[int], lives: "_Lives", small_bytes: int
) -> list[int]:
    """The order with updates of few bytes, for which no node waits, at the end: they may share a launch."""
    small = {
        index
        for index in order
        if not lives.followers[index]
        and not fused_update(operator_of(nodes[index]))
        and _is_sink(program, nodes[index])
        and sum(program.tensors[name].type.bytes for name in nodes[index].outputs if name) <= small_bytes
    }
    return [i for i in order if i not in small] + [i for i in order if i in small]


class _Lives:
    """The dependences between nodes, and the memory that is live from node to node.

    It counts what lives within the graph: values, and accumulators if each pass has an update of its own (`sole`).
    """

    def __init__(self, program: Program, nodes: Sequence[Node], sole: bool) -> None:
        outputs = {program.storage(name) for name in program.outputs}
        self.followers: list[set[int]] = [set() for _ in nodes]
        self.waits: list[set[int]] = [set() for _ in nodes]
        self.touches: list[set[str]] = []
        self.users: dict[str, set[int]] = {}
        self.bytes: dict[str, int] = {}
        writer: dict[str, int] = {}
        readers: dict[str, set[int]] = {}
        for index, node in enumerate(nodes):
            reads, writes = ({program.storage(n) for n in names if n} for names in (node.inputs, node.outputs))
            for storage in reads | writes:
                before = {writer[storage]} if storage in writer else set()
                before |= readers.get(storage, set()) if storage in writes else set()
                for other in before - {index}:
                    self.waits[index].add(other)
                    self.followers[other].add(index)
                if storage in writes:
                    writer[storage], readers[storage] = index, set()
                else:
                    readers.setdefault(storage, set()).add(index)
            storages = set()
            for storage in reads | writes:
                role = program.tensors[storage].role
                if role == "value" or (role == "accumulator" and sole):
                    storages.add(storage)
                    self.bytes[storage] = program.tensors[storage].type.bytes
                    self.users.setdefault(storage, set()).add(index)
            self.touches.append(storages)
        for storage in self.users:
            if storage in outputs or program.tensors[storage].role == "accumulator":
                self.users[storage].add(len(nodes))

    def peak(self, order: Sequence[int]) -> int:
        """Most bytes live during a node."""
        pending = {storage: set(users) for storage, users in self.users.items()}
        live: set[str] = set()
        most = 0
        for index in order:
            live |= self.touches[index]
            most = max(most, sum(self.bytes[s] for s in live))
            for storage in self.touches[index]:
                pending[storage].discard(index)
            live -= {s for s in self.touches[index] if not pending[s]}
        return most

    def greedy(self) -> list[int]:
        """The order that always runs the ready node after which the fewest bytes are live, or the first of several."""
        waits = [set(w) for w in self.waits]
        pending = {storage: set(users) for storage, users in self.users.items()}
        ready = {i for i, w in enumerate(waits) if not w}
        live: set[str] = set()
        order: list[int] = []

        def growth(index: int) -> tuple[int, int]:
            born = sum(self.bytes[s] for s in self.touches[index] - live)
            freed = sum(self.bytes[s] for s in self.touches[index] if pending[s] == {index})
            return born - freed, index

        while ready:
            index = min(ready, key=growth)
            ready.discard(index)
            order.append(index)
            live |= self.touches[index]
            for storage in self.touches[index]:
                pending[storage].discard(index)
            live -= {s for s in self.touches[index] if not pending[s]}
            for follower in self.followers[index]:
                waits[follower].discard(index)
                if not waits[follower]:
                    ready.add(follower)
        return order


def _ordered(program: Program, graph: Graph) -> list[Node]:
    """The nodes in graph order, but with each in-place sink directly behind the last node that it depends on."""
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
    """Whether a node does nothing but update, in place, memory that outlives the graph."""
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
