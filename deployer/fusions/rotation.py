"""Fusion of nodes that turn pairs of elements by constant angles into one, however a model has written that.

Position embeddings are written with halves that are sliced, turned and concatenated, with a copy whose halves are
swapped, with neighbours, forwards and in gradients. What they have in common is the result: each element is one element
of a tensor times a number, plus another one times a number. So the rewrite follows elements through moves, products
with constants and sums, and looks at what arrives.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from deployer.core.ir import AttrValue, Graph, Node, Program, Tensor, TensorType
from deployer.core.operator import execution_of, operator_of, registry
from deployer.core.plan import Options
from deployer.fusions.pair import is_plain, is_unwritten

Indices = npt.NDArray[np.int32]
Factors = npt.NDArray[np.float32]
LARGEST = 1 << 24
"""Elements of the largest tensor that is followed."""


@dataclass(frozen=True)
class Mixed:
    """A tensor as a sum of up to two elements of `source`, each times a factor, in the order of its own elements.

    An index counts from 1; at 0 there is nothing. `zeros` tells where 0 was added.
    """

    source: str
    indices: tuple[Indices, ...]
    factors: tuple[Factors, ...]
    zeros: npt.NDArray[np.int32]
    nodes: frozenset[str] = frozenset()


@dataclass
class _Follower:
    """The tensors of a graph as mixtures of others, none of which has more elements than `size`."""

    program: Program
    graph: Graph
    size: int
    known: dict[str, Mixed] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.makers = {name: node for node in self.graph.nodes for name in node.outputs if name}

    def mixed(self, name: str) -> Mixed:
        """Return what a tensor is; at worst itself."""
        if name not in self.known:
            self.known[name] = self._found(name) or self._itself(name)
        return self.known[name]

    def _itself(self, name: str) -> Mixed:
        shape = self._shape(name)
        indices = np.arange(1, self.program.tensors[name].type.size + 1, dtype=np.int32).reshape(shape)
        return Mixed(name, (indices,), (np.ones(shape, np.float32),), np.zeros(shape, np.int32))

    def _size(self, name: str) -> int:
        return self.program.tensors[name].type.size

    def _shape(self, name: str) -> tuple[int, ...]:
        return self.program.tensors[name].type.shape

    def _found(self, name: str) -> Mixed | None:
        tensor, node = self.program.tensors[name], self.makers.get(name)
        if tensor.type.dtype != "float32" or tensor.type.size > LARGEST or tensor.role != "value":
            return None
        if node is None:
            return _shaped(self.mixed(tensor.storage), tensor.type.shape) if tensor.storage != name else None
        operator = operator_of(node)
        if tensor.storage != name or len(node.outputs) > 1 or operator.kernel is None:
            return None
        fusion, pointers = operator.fusion, [arg for arg, _, is_output in operator.kernel.pointers if not is_output]
        if set(pointers) <= set(execution_of(operator).moved) or (fusion is not None and fusion.is_move):
            return self._moved(node)
        if fusion is not None and fusion.is_product and is_plain(node):
            return self._product(node)
        if fusion is not None and len(fusion.signs) == len(node.inputs) and is_plain(node):
            return self._sum(node, fusion.signs)
        return None

    def _constant(self, name: str) -> Factors | None:
        root = self.program.tensors[self.program.storage(name)]
        return root.array.astype(np.float32).reshape(self._shape(name)) if root.role == "constant" else None

    def _moved(self, node: Node) -> Mixed | None:
        """The elements of one tensor in other places; what a node puts between them must be zeros.

        All elements of one input in another order are not followed, nor is a part of what is larger than the result:
        pairs are turned where they are then.
        """
        sizes = [self._size(name) for name in node.inputs]
        if self._size(node.outputs[0]) in sizes or max(sizes) > self.size:
            return None
        if any(self._constant(name) is not None for name in node.inputs):
            return None
        parts = [self.mixed(name) for name in node.inputs]
        source = parts[0].source
        if any(part.source != source for part in parts):
            return None
        operator, terms = operator_of(node), max(len(part.indices) for part in parts)

        def moved(arrays: list[npt.NDArray[np.generic]]) -> npt.NDArray[np.generic]:
            return operator.reference(node, arrays)[0]

        if moved([np.zeros(self._shape(name), np.int32) for name in node.inputs]).any():
            return None
        parts = [_extended(part, terms) for part in parts]
        indices = [moved([part.indices[i] for part in parts]).astype(np.int32) for i in range(terms)]
        factors = [moved([part.factors[i] for part in parts]).astype(np.float32) for i in range(terms)]
        zeros = moved([part.zeros for part in parts]).astype(np.int32)
        return Mixed(source, tuple(indices), tuple(factors), zeros, _nodes(parts, node))

    def _product(self, node: Node) -> Mixed | None:
        """One element times a number, where it was multiplied by nothing but 1 or -1 before."""
        for own, other in (node.inputs, node.inputs[::-1]):
            number, part = self._constant(other), self.mixed(own)
            if number is None or self._constant(own) is not None:
                continue
            if number.size == 1 and abs(number.reshape(())) != 1:  # no angle: what it scales is turned as a whole
                return None
            (factors, *others), shape = part.factors, self._shape(node.outputs[0])
            if others or shape != part.indices[0].shape or (np.abs(factors) != 1).any() or not part.indices[0].all():
                return None
            product = np.asarray(factors * np.broadcast_to(number, shape), np.float32)
            return Mixed(part.source, part.indices, (product,), part.zeros, _nodes([part], node))
        return None

    def _sum(self, node: Node, signs: tuple[int, ...]) -> Mixed | None:
        """The elements of one tensor that are added, where these are at most two.

        Zeros may be added to them, but not subtracted: then -0 would stay -0.
        """
        if any(self._constant(name) is not None for name in node.inputs):
            return None
        parts, shape = [self.mixed(name) for name in node.inputs], self._shape(node.outputs[0])
        if any(part.source != parts[0].source or part.zeros.shape != shape for part in parts):
            return None
        if any(sign < 0 and _has_zeros(part) for part, sign in zip(parts, signs, strict=True)):
            return None
        indices = np.stack([p for part in parts for p in part.indices])
        factors = np.stack(
            [f * np.float32(sign) for part, sign in zip(parts, signs, strict=True) for f in part.factors]
        )
        count = (indices > 0).sum(0)
        if (count > 2).any():
            return None
        order = np.argsort(indices == 0, axis=0, kind="stable")[:2]
        indices, factors = np.take_along_axis(indices, order, 0), np.take_along_axis(factors, order, 0)
        empty = sum((np.stack(part.indices) > 0).any(0).astype(np.int32) == 0 for part in parts)
        zeros = np.asarray((sum(part.zeros for part in parts) + (empty if len(parts) > 1 else 0)) > 0, np.int32)
        return Mixed(parts[0].source, tuple(indices), tuple(factors), zeros, _nodes(parts, node))


def _has_zeros(part: Mixed) -> bool:
    """Whether an element is nothing but zero, or zero was added to it."""
    return bool(part.zeros.any() or not np.any(part.indices, axis=0).all())


def _nodes(parts: list[Mixed], node: Node) -> frozenset[str]:
    return frozenset({node.name}).union(*(part.nodes for part in parts))


def _shaped(part: Mixed, shape: tuple[int, ...]) -> Mixed:
    indices, factors = tuple(p.reshape(shape) for p in part.indices), tuple(f.reshape(shape) for f in part.factors)
    return replace(part, indices=indices, factors=factors, zeros=part.zeros.reshape(shape))


def _extended(part: Mixed, terms: int) -> Mixed:
    """The mixture with so many terms, of which more are absent."""
    more = terms - len(part.indices)
    indices = (*part.indices, *[np.zeros_like(part.indices[0])] * more)
    return replace(part, indices=indices, factors=(*part.factors, *[np.zeros_like(part.factors[0])] * more))


@dataclass(frozen=True)
class Angles:
    """A rotation of pairs with tables [places, pairs], as the operator has it."""

    cos: Factors
    sin: Factors
    attrs: dict[str, AttrValue]


def rotation_of(part: Mixed, copies: bool = False) -> Angles | None:
    """The rotation that a mixture is, of all elements of its rows or of neighbouring ones, where the others are kept;
    None where it is something else, or angles depend on more than one axis. With `copies` axes in front of that one are
    a part of the tables, also if these repeat along them.
    """
    if len(part.indices) != 2 or not part.indices[0].all() or not part.zeros.size:
        return None
    own = np.arange(1, part.zeros.size + 1, dtype=np.int32).reshape(part.zeros.shape)
    if part.indices[1].all():
        return _rotation(part, own, copies)
    width = part.zeros.shape[-1]
    turned = (part.indices[1] != 0).reshape(-1, width)
    columns = np.flatnonzero(turned[0])
    if not columns.size or (turned != turned[0]).any() or columns.size != columns[-1] - columns[0] + 1:
        return None
    begin, end = int(columns[0]), int(columns[-1]) + 1
    kept = np.r_[:begin, end:width]
    zeros = part.zeros[..., kept]
    same = (part.indices[0] == own)[..., kept] & (part.factors[0] == 1)[..., kept]
    if not same.all() or zeros.min() != zeros.max():
        return None

    indices = tuple(x[..., begin:end] for x in part.indices)
    factors = tuple(x[..., begin:end] for x in part.factors)
    within = Mixed(part.source, indices, factors, part.zeros[..., begin:end])
    found = _rotation(within, own[..., begin:end], copies, is_part=True)
    if found is None:
        return None
    attrs = {"before": begin, "behind": width - end, "kept_adds_zero": int(zeros.max())}
    return replace(found, attrs=found.attrs | {name: number for name, number in attrs.items() if number})


def _rotation(part: Mixed, own: Indices, copies: bool, is_part: bool = False) -> Angles | None:
    """The rotation that a mixture is in which each element is one of a pair, in rows or in parts of rows.

    `own` are the indices of the elements.
    """
    if part.zeros.min() != part.zeros.max():
        return None
    is_first = part.indices[0] == own
    if not (is_first | (part.indices[1] == own)).all():
        return None
    near, far = np.where(is_first, *part.factors), np.where(is_first, *part.factors[::-1])
    distance = np.where(is_first, *part.indices[::-1]) - own
    half, rows = int(abs(distance.reshape(-1)[0])), part.zeros.shape[:-1]
    width = part.zeros.shape[-1]
    if half == 1 and width == 2 and rows and not is_part:  # pairs that are an axis of their own
        rows, width = rows[:-1], 2 * rows[-1]
    if half not in (1, width // 2) or width % 2:
        return None
    view = (-1, 2, half) if half > 1 or width == 2 else (-1, width // 2, 2)
    axis = 1 if view[1:] == (2, half) else 2
    first, second = (x.squeeze(axis) for x in np.split(distance.reshape(view), 2, axis))
    if (first != half).any() or (second != -half).any():
        return None
    shape = (*rows, width // 2)
    cos, cos_second = (x.reshape(shape) for x in np.split(near.reshape(view), 2, axis))
    minus_sin, sin = (x.reshape(shape) for x in np.split(far.reshape(view), 2, axis))
    if not (np.array_equal(cos, cos_second) and np.array_equal(minus_sin, -sin)):
        return None
    found = _table(cos, sin, copies)
    if found is None:
        return None
    cos, sin, outer, inner = found
    attrs: dict[str, AttrValue] = {"outer": outer, "inner": inner}
    attrs |= {"neighbours": 1} if axis == 2 else {}
    return Angles(cos, sin, attrs | ({"adds_zero": 1} if part.zeros.any() else {}))


def _table(cos: Factors, sin: Factors, copies: bool) -> tuple[Factors, Factors, int, int] | None:
    """The tables without axes along which they repeat, and how often they do outside and inside of places."""
    *rows, width = cos.shape
    varying = [a for a in range(len(rows)) if any((x != x.take([0], a)).any() for x in (cos, sin))]
    first, end = (varying[0], varying[-1] + 1) if varying else (len(rows), len(rows))
    first = 0 if copies else first
    outer, spots, inner = (int(np.prod(rows[a:b], dtype=np.int64)) for a, b in ((0, first), (first, end), (end, None)))
    tables = [np.ascontiguousarray(x.reshape(outer, spots, inner, width)[0, :, 0]) for x in (cos, sin)]
    return tables[0], tables[1], outer, inner


def apply(program: Program, options: Options) -> Program:
    """Fuse every group of nodes whose result is a rotation of a tensor."""
    rotation = next((op.name for op in registry().values() if op.fusion is not None and op.fusion.is_rotation), "")
    for graph in program.graphs if rotation else ():
        for node in (*_ends(program, graph),)[::-1]:  # a part of a row is turned by itself where the row is not
            program = _fused(program, options, graph.name, node, rotation)
    return program


def _ends(program: Program, graph: Graph) -> Iterator[Node]:
    """Nodes that may be the last of a rotation: those of several inputs behind products with several constants."""
    makers = {name: node for node in graph.nodes for name in node.outputs if name}
    behind = dict[str, bool]()
    for node in graph.nodes:
        fusion = operator_of(node).fusion
        roots = [program.tensors[program.storage(name)] for name in node.inputs if name]
        is_product = fusion is not None and fusion.is_product
        scales = is_product and any(t.role == "constant" and t.type.size > 1 for t in roots)
        sources = [makers[t.name].name for t in roots if t.name in makers]
        follows = any(behind[name] for name in sources if name in behind)
        moves = bool(execution_of(operator_of(node)).moved)
        moves |= fusion is not None and (fusion.is_move or bool(fusion.signs))
        behind[node.name] = scales or (moves and follows)
        if len(node.inputs) > 1 and moves and follows:
            yield node


def _fused(program: Program, options: Options, graph_name: str, last: Node, rotation: str) -> Program:
    """The program with a rotation in the place of `last` and of what only it reads."""
    graph = next(g for g in program.graphs if g.name == graph_name)
    if last not in graph.nodes:
        return program
    result = program.tensors[last.outputs[0]]
    part = _Follower(program, graph, result.type.size).mixed(result.name)
    if part.nodes & set(options.opt_out) or result.storage != result.name or part.source == result.name:
        return program
    if program.tensors[part.source].type.size != result.type.size:
        return program
    first = next(n for n in graph.nodes if n.name in part.nodes) if part.nodes else last
    plain = rotation_of(part)
    if plain is None or not is_unwritten(program, graph, first, last, part.source):
        return program
    read = {program.storage(name) for n in graph.nodes if n.name in part.nodes for name in n.inputs if name}
    kinds = (angles for copies in (False, True) if (angles := rotation_of(part, True) if copies else plain))
    listed = ((angles, tables) for angles in kinds if (tables := _tables_in(program, read, angles)))
    found = next(listed, None)
    if found is None:
        return program
    angles, (cos, sin) = found
    tensors, attrs = dict(program.tensors), dict(angles.attrs)
    attrs |= {"inverse": 1} if sin.is_opposite else {}
    attrs |= {"step": cos.step} if cos.step > 1 else {}
    operands = ((part.source, result.type.shape), (cos.name, cos.shape), (sin.name, sin.shape))
    inputs = tuple(_view_of(tensors, *operand) for operand in operands)
    nodes = [Node(last.name, rotation, inputs, last.outputs, attrs) if n is last else n for n in graph.nodes]
    graphs = tuple(Graph(g.name, tuple(nodes)) if g is graph else g for g in program.graphs)
    return _without_unread(replace(program, tensors=tensors, graphs=graphs), part.nodes - {last.name})


def _view_of(tensors: dict[str, Tensor], source: str, shape: tuple[int, ...]) -> str:
    """A tensor in this shape: itself, or a view of it."""
    if tensors[source].type.shape == shape:
        return source
    name = f"{source}/{'x'.join(map(str, shape))}"
    tensors[name] = Tensor(name, TensorType("float32", shape), "value", source)
    return name


@dataclass(frozen=True)
class AngleTable:
    """A constant as rows of `shape`: each `step`-th number from the first on is a table's, or its opposite."""

    name: str
    shape: tuple[int, int]
    step: int
    is_opposite: bool


def _tables_in(program: Program, names: set[str], angles: Angles) -> "tuple[AngleTable, AngleTable] | None":
    """The constants of these that have the numbers of both tables; None without such ones."""
    cos, sin = (_table_in(program, names, table) for table in (angles.cos, angles.sin))
    if cos is None or sin is None or cos.is_opposite or cos.step != sin.step:
        return None
    return cos, sin


def _table_in(program: Program, names: set[str], table: Factors) -> AngleTable | None:
    """The constant of these that has the table's numbers; None without one: fusion makes no constants."""
    rows, width = table.shape
    for name in sorted(names):
        tensor = program.tensors[name]
        if tensor.role != "constant" or tensor.type.dtype != "float32" or tensor.type.size % rows:
            continue
        numbers = tensor.array.astype(np.float32).reshape(rows, -1)
        for step in (1, 2):
            part = numbers[:, : width * step : step]
            for is_opposite in (False, True):
                if part.shape == table.shape and np.array_equal(-part if is_opposite else part, table):
                    return AngleTable(name, (rows, numbers.shape[1]), step, is_opposite)
    return None


def _without_unread(program: Program, names: frozenset[str]) -> Program:
    """The program without those of the nodes whose results nobody reads any more, and without what only they read."""
    while gone := [node for node in program.nodes if node.name in names and _is_unread(program, node)]:
        lost = {name for node in gone for name in node.outputs}
        graphs = tuple(Graph(g.name, tuple(n for n in g.nodes if n not in gone)) for g in program.graphs)
        left = {name for g in graphs for n in g.nodes for name in n.inputs}
        fed = {name for node in gone for name in node.inputs if name and program.tensors[name].role == "constant"}
        lost |= {name for name in fed if name not in left and _is_unviewed(program, name)}
        lost |= {name for name in program.tensors if program.storage(name) in lost}
        tensors = {name: tensor for name, tensor in program.tensors.items() if name not in lost}
        program = replace(program, tensors=tensors, graphs=graphs)
    return program


def _is_unread(program: Program, node: Node) -> bool:
    """Whether neither a node nor the harness reads what the node makes."""
    read = {program.storage(name) for other in program.nodes for name in other.inputs if name}
    read |= {*program.outputs, *program.updated}
    return all(program.tensors[name].role == "value" and name not in read for name in node.outputs if name)


def _is_unviewed(program: Program, name: str) -> bool:
    """Whether no other tensor lies in the memory of this one."""
    return not any(t.storage == name for t in program.tensors.values() if t.name != name)
