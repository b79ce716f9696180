"""Split of a program into the part that nothing trains, and the head that reads what it computes of each sample."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from deployer.core.errors import OptionProblem
from deployer.core.ir import DTYPES, Graph, Node, Program, Tensor, TensorType
from deployer.core.operator import registry, training_of
from deployer.operators.base.one_sample import SampleAxis
from deployer.planning.canonical.sample_places import SamplePlaces, batch_of, results_of
from deployer.verify.program import verify_program

SHOWN = 4
"""So many nodes at the border are named."""
DRAWS = "draws anew in each pass (without dropout it would not)"
HINT = "freeze the first layers, with --trainable REGEX or requires_grad=False, or leave --latent-replay out"


@dataclass(frozen=True)
class Latent:
    """A tensor between a frozen part and its head: its name in both, and its type for a whole batch."""

    name: str
    type: TensorType


@dataclass(frozen=True)
class FrozenPart:
    """A program in two: `features` computes the latents of a batch from data inputs, `head` everything else from them.

    The latents are the outputs of `features`, and the first data inputs of `head`. Each has the samples of the batch,
    `count` of them, one behind the other, and what it has of a sample depends on that sample alone. `head` computes the
    same bits as the whole program, has the same weights under the same names, and keeps the data inputs that something
    in it reads, and those that are no inputs of the model. `stopped` says why the first nodes that are not frozen
    belong to the head.
    """

    latents: tuple[Latent, ...]
    features: Program
    head: Program
    count: int
    stopped: tuple[str, ...] = ()

    @property
    def sample_bytes(self) -> int:
        """Bytes of the latents of one sample."""
        return sum(latent.type.bytes for latent in self.latents) // self.count


def split_frozen(program: Program, inputs: Collection[str]) -> FrozenPart:
    """Split a program in front of the first nodes that depend on a weight, or on a data input beside `inputs`.

    `inputs` are those of the model, without labels and shares. Nodes that mix samples belong to the head as well, and
    so does a dequantization on the border, which makes the latent one of 8 bits. OptionProblem where no node is frozen.
    """
    split = _Split(program, inputs)
    head = split.head_nodes()
    latents = split.border(head)
    if not latents or not split.moving:
        facts = [("read the data itself", "\n".join(split.stopped[:SHOWN]) or "no trained layer")]
        raise OptionProblem("latent replay: no layer in front of the trained ones is frozen", facts, HINT)
    part = FrozenPart(
        tuple(Latent(split.entrance(name), split.entered(name)) for name in latents),
        split.features(latents),
        split.head(head, latents),
        split.places.count,
        tuple(split.stopped),
    )
    verify_program(part.features)
    verify_program(part.head)
    return part


@dataclass
class _Split:
    """A split on its way: nodes by output, those that are `fixed` by constants, those that are `frozen`."""

    program: Program
    inputs: Collection[str]
    fixed: dict[str, Node] = field(default_factory=dict)
    frozen: dict[str, Node] = field(default_factory=dict)
    moving: list[Node] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    places: SamplePlaces = field(init=False)

    def __post_init__(self) -> None:
        """Sort the nodes of the first graph."""
        self.places = SamplePlaces(self.program, batch_of(self.program))
        self.places.begin(self.inputs)
        types = {name: tensor.type for name, tensor in self.program.tensors.items()}
        for node in self.program.graphs[0].nodes:
            sources = [self.program.storage(name) for name in node.inputs if name]
            unknown = [name for name in sources if not self._is_known(name)]
            if self._changes(node) or unknown:
                self.moving.append(node)
                if any(map(self._is_sampled, sources)):
                    draws = training_of(node).passes is not None
                    reads = f"reads {', '.join(map(repr, unknown))}"
                    self.stopped.append(f"node {node.name!r} ({node.op}) {DRAWS if draws else reads}")
                continue
            if not any(self._is_sampled(name) for name in sources):
                self.fixed |= dict.fromkeys(node.outputs, node)
                continue
            mixes = self._mixes(node, types)
            if mixes:
                self.moving.append(node)
                self.stopped.append(mixes)
                continue
            self.frozen |= dict.fromkeys(node.outputs, node)
        self.fixed.pop("", None)
        self.frozen.pop("", None)

    def _changes(self, node: Node) -> bool:
        """Whether a node overwrites an operand, or adds to an accumulator."""
        roots = [self.program.tensors[self.program.storage(name)] for name in node.outputs if name]
        return bool(registry()[node.op].inplace) or any(root.role != "value" for root in roots)

    def _is_sampled(self, root: str) -> bool:
        return root in self.inputs or root in self.frozen

    def _is_known(self, root: str) -> bool:
        """Whether a storage holds a constant, or what follows from constants and inputs."""
        return self._is_sampled(root) or root in self.fixed or self.program.tensors[root].role == "constant"

    def _mixes(self, node: Node, types: Mapping[str, TensorType]) -> str:
        """The reason why a node does not treat samples one by one; empty where it does."""
        if self.places.count == 1:
            return ""
        try:
            found = dict(results_of(self.places, node, types))
        except OptionProblem as problem:
            return f"node {node.name!r} ({node.op}): {dict(problem.facts).get('reason', problem.cause)}"
        self.places.found |= found
        self.places.makers |= dict.fromkeys(filter(None, node.outputs), node)
        mixed = [name for name in node.outputs if name and not isinstance(found.get(name), SampleAxis)]
        return f"node {node.name!r} ({node.op}): {mixed[0]!r} is no value of single samples" if mixed else ""

    def head_nodes(self) -> set[str]:
        """The names of the nodes of the head: those that are not frozen, and those that are computed in both parts."""
        head = {node.name for node in self.moving}
        while True:
            again = [self.frozen[name].name for name in self.border(head) if self._is_recomputed(name)]
            if not again:
                return head
            head.update(again)

    def border(self, head: Collection[str]) -> list[str]:
        """The storages of frozen nodes that the head reads, in the order in which they are computed."""
        read = {self.program.storage(name) for name in self._read(head)}
        return [name for name, node in self.frozen.items() if name in read and node.name not in head]

    def _read(self, head: Collection[str]) -> Iterator[str]:
        """The values that nodes of these names, the other graphs and the program's reader read."""
        first, *others = self.program.graphs
        nodes = [node for node in first.nodes if node.name in head]
        for node in (*nodes, *(node for graph in others for node in graph.nodes)):
            yield from filter(None, node.inputs)
        yield from self.program.outputs

    def _is_recomputed(self, name: str) -> bool:
        """Whether the head computes a value on the border again: it dequantizes numbers that have fewer bytes, or has
        not the samples one behind the other.
        """
        place = self.places.found.get(name)
        if self.places.count > 1 and isinstance(place, SampleAxis) and place.outer > 1:
            return True
        tensors, node = self.program.tensors, self.frozen[name]
        sources = [tensors[root] for root in map(self.program.storage, filter(None, node.inputs))]
        sampled = [tensor.type for tensor in sources if self._is_sampled(tensor.name)]
        kind = tensors[name].type
        return len(sampled) == 1 and sampled[0].size == kind.size and DTYPES[sampled[0].dtype] < DTYPES[kind.dtype]

    def entered(self, name: str) -> TensorType:
        """The type of a latent as a data input: with the samples of a batch along the first axis."""
        kind, count = self.program.tensors[name].type, self.places.count
        return kind if kind.shape[:1] == (count,) else TensorType(kind.dtype, (count, kind.size // count))

    def entrance(self, name: str) -> str:
        """The name of the data input for a latent: its own, or another one where it has another shape there."""
        return name if self.entered(name) == self.program.tensors[name].type else f"{name}/samples"

    def features(self, latents: Collection[str]) -> Program:
        """The program that computes the latents."""
        graph = Graph("infer", self._needed(latents, self.frozen | self.fixed))
        used = self._used(graph.nodes, latents)
        outputs = tuple(map(self.entrance, latents))
        data = {name: self.program.tensors[name] for name in self.program.data if name in used}
        tensors = data | {name: tensor for name, tensor in self.program.tensors.items() if name in used}
        for name, output in zip(latents, outputs, strict=True):
            tensors[output] = replace(tensors.get(output) or Tensor(output, self.entered(name), "value", name))
        return Program(tensors, (graph,), tuple(data), (), (), "", outputs, {}, rewrites=self.program.rewrites)

    def head(self, head: Collection[str], latents: Collection[str]) -> Program:
        """The program without what only the latents need, whose data inputs they are."""
        program, (first, *others) = self.program, self.program.graphs
        own = [node for node in first.nodes if node.name in head]
        constant = self._needed((name for node in own for name in node.inputs if name), self.fixed)
        kept = {node.name for node in (*own, *constant)}
        graphs = (Graph(first.name, tuple(node for node in first.nodes if node.name in kept)), *others)
        nodes = [node for graph in graphs for node in graph.nodes]
        used = self._used(nodes, (*program.outputs, *program.updated, *program.updated.values()))
        entering = {self.entrance(name): self.entered(name) for name in latents}
        left = {name: program.tensors[name] for name in program.data if name in used or name not in self.inputs}
        tensors = {name: Tensor(name, kind, "data", name) for name, kind in entering.items()} | left
        data = tuple(tensors)
        lasting = {*program.weights, *program.accumulators, program.flag}
        for name, tensor in program.tensors.items():
            if name not in tensors and (name in used or name in lasting):
                is_latent = name in latents
                tensors[name] = replace(tensor, storage=self.entrance(name)) if is_latent else tensor
        held = tuple(name for name in data if name in program.held)
        return replace(program, tensors=tensors, graphs=graphs, data=data, held=held)

    def _needed(self, names: Iterable[str], makers: Mapping[str, Node]) -> tuple[Node, ...]:
        """The nodes among `makers` that compute these values, in the order of the graph."""
        found, left = dict[str, Node](), [self.program.storage(name) for name in names]
        while left:
            node = makers.get(left.pop())
            if node is not None and node.name not in found:
                found[node.name] = node
                left += [self.program.storage(name) for name in node.inputs if name]
        return tuple(node for node in self.program.graphs[0].nodes if node.name in found)

    def _used(self, nodes: Iterable[Node], more: Iterable[str]) -> set[str]:
        """The tensors of nodes, further ones, and those whose memory they use."""
        used, left = set[str](), [n for node in nodes for n in (*node.inputs, *node.outputs) if n]
        left += more
        while left:
            name = left.pop()
            if name not in used:
                used.add(name)
                left.append(self.program.tensors[name].storage)
        return used
