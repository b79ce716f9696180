"""The nodes of a program that attention is lowered to, and the steps that replace them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from deployer.core.access import Access
from deployer.core.errors import ShapeMismatch, UnsupportedOperator
from deployer.core.ir import DTYPES, AttrValue, Graph, Node, Program, TensorType
from deployer.core.operator import operator_of
from deployer.core.traits.fusion import Region

PRODUCT, SHARES, SHARES_GRAD = "Gemm", "MaskedSoftmax", "SoftmaxGrad"
ROWS, QUERY_GRAD, KEY_GRAD = "AttentionRows", "AttentionQueryGrad", "AttentionKeyGrad"
ROWS_EACH, BLOCK = "rows_each", 4
"""The attribute, and the kernels' scalar, that says for how many queries or keys at a time a core has rows: one, or a
block of neighbours, whose products are computed together.
"""
FROM_FIRST = "from_first"
"""The attribute, and the kernels' flag, that sums count their blocks from the first key that a mask does not hide."""
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Values:
    """Values of a program by their memory: who makes and who reads one, or a view of it."""

    program: Program
    graph: Graph

    def maker(self, name: str) -> Node | None:
        """The node that makes a value, or that of which it is a view."""
        root = self.program.storage(name)
        return next((n for n in self.graph.nodes if root in n.outputs), None)

    def views(self, name: str) -> set[str]:
        """All names of the same memory."""
        root = self.program.storage(name)
        return {n for n in self.program.tensors if self.program.storage(n) == root}

    def readers(self, name: str) -> list[Node]:
        """The nodes of all graphs that read a value or a view of it."""
        views = self.views(name)
        return [n for n in self.program.nodes if views & set(n.inputs)]

    def is_inner(self, name: str) -> bool:
        """Whether nothing but nodes sees the value."""
        views = self.views(name)
        roles = {self.program.tensors[n].role for n in views}
        return roles == {"value"} and not views & {*self.program.outputs, *self.program.updated}

    def of_shape(self, name: str, shape: Shape) -> str:
        """The name of the same memory that has the shape, the value itself first; empty if there is none."""
        views = sorted(self.views(name), key=lambda n: (n != name, n))
        return next((n for n in views if self.program.tensors[n].type.shape == shape), "")


def _is_product(node: Node | None, trans_a: int, trans_b: int) -> bool:
    """Whether the node is a plain product of two matrices, one of them maybe transposed."""
    if node is None or node.op != PRODUCT or len(node.inputs) != 2:
        return False
    plain = node.attr_float("alpha", 1.0) == 1.0 and not set(node.attrs) - {"alpha", "beta", "transA", "transB"}
    return plain and (node.attr_int("transA", 0), node.attr_int("transB", 0)) == (trans_a, trans_b)


@dataclass(frozen=True)
class AttentionNodes:
    """The nodes of attention: forward, and backward if there is a gradient."""

    scores: Node
    shares: Node
    result: Node
    dv: Node | None = None
    dp: Node | None = None
    ds: Node | None = None
    dq: Node | None = None
    dk: Node | None = None

    @property
    def backward(self) -> tuple[Node, ...]:
        """The nodes of the gradient."""
        return tuple(n for n in (self.dv, self.dp, self.ds, self.dq, self.dk) if n is not None)


def find(values: Values, shares: Node) -> AttentionNodes | None:
    """The nodes around a softmax of scores that are all of attention, with no other reader; None if there are none."""
    scores = values.maker(shares.inputs[0])
    if scores is None or not _is_product(scores, 0, 1) or values.readers(shares.inputs[0]) != [shares]:
        return None
    inner = [shares.inputs[0], shares.outputs[0]]
    readers = values.readers(shares.outputs[0])
    made = values.views(shares.outputs[0])
    results = [n for n in readers if _is_product(n, 0, 0) and n.inputs[0] in made]
    if len(results) != 1 or not all(map(values.is_inner, inner)):
        return None
    if len(readers) == 1:
        return AttentionNodes(scores, shares, results[0])
    sums = [n for n in readers if _is_product(n, 1, 0) and n.inputs[0] in made]
    grads = [n for n in readers if n.op == SHARES_GRAD and n.inputs[1] in made]
    if len(readers) != 3 or len(sums) != 1 or len(grads) != 1:
        return None
    return _with_gradient(values, AttentionNodes(scores, shares, results[0], sums[0]), grads[0])


def _with_gradient(values: Values, forward: AttentionNodes, ds: Node) -> AttentionNodes | None:
    dp = values.maker(ds.inputs[0])
    if dp is None or not _is_product(dp, 0, 1) or values.readers(ds.inputs[0]) != [ds]:
        return None
    made = values.views(ds.outputs[0])
    readers = values.readers(ds.outputs[0])
    dq = [n for n in readers if _is_product(n, 0, 0) and n.inputs[0] in made]
    dk = [n for n in readers if _is_product(n, 1, 0) and n.inputs[0] in made]
    rank = len(values.program.tensors[ds.outputs[0]].type.shape)
    same = ds.attr_float("alpha", 1.0) == forward.shares.attr_float("alpha", 1.0)
    last = ds.attr_int("axis", -1) in (-1, rank - 1)
    inner = values.is_inner(ds.inputs[0]) and values.is_inner(ds.outputs[0])
    if not (len(readers) == 2 and len(dq) == len(dk) == 1 and same and last and inner and forward.dv):
        return None
    found = AttentionNodes(forward.scores, forward.shares, forward.result, forward.dv, dp, ds, dq[0], dk[0])
    pairs = [
        *((dp.inputs[0], forward.dv.inputs[1]), (dp.inputs[1], forward.result.inputs[1])),
        *((dq[0].inputs[1], forward.scores.inputs[1]), (dk[0].inputs[1], forward.scores.inputs[0])),
    ]
    storage = values.program.storage
    return found if all(storage(a) == storage(b) for a, b in pairs) else None


def region(program: Program, graph: Graph, node: Node, budget: int, cores: int, canonical: bool) -> Region | None:
    """The steps in the place of the nodes around a softmax of scores; None where they cannot stand for them, or rows of
    scores do not fit the budget. In canonical order masked attention needs them: only they count blocks of keys from
    the first one that a mask leaves.
    """
    values = Values(program, graph)
    found = find(values, node)
    if found is None or any(n not in graph.nodes for n in (*found.backward, found.result, found.scores)):
        return None
    try:
        return _Steps(values, found, cores, budget, canonical).region()
    except (ShapeMismatch, UnsupportedOperator):
        return None


class _Steps:
    """The steps for the nodes of attention."""

    def __init__(self, values: Values, found: AttentionNodes, cores: int, budget: int, canonical: bool) -> None:
        self.values, self.found, self.program = values, found, values.program
        self.cores, self.budget = cores, budget
        tensors = self.program.tensors
        scores = tensors[found.shares.inputs[0]].type.shape
        self.k, self.v = found.scores.inputs[1], found.result.inputs[1]
        self.heads_k, self.heads_v = tensors[self.k].type.shape, tensors[self.v].type.shape
        self.heads_q = (*scores[:-1], self.heads_k[-1])
        self.heads_y = (*scores[:-1], self.heads_v[-1])
        self.mask = found.shares.inputs[1] if len(found.shares.inputs) > 1 else ""
        self.attrs: dict[str, AttrValue] = {"workers": cores}
        self.attrs |= {n: x for n, x in found.shares.attrs.items() if n in ("alpha", "causal", "safe")}
        self.from_first = canonical and bool(self.mask)
        self.attrs |= {FROM_FIRST: 1} if self.from_first else {}
        self.types: dict[str, TensorType] = {}
        self.viewed: dict[str, str] = {}

    def region(self) -> Region | None:
        """The region, if the values have the shapes of heads, nothing overwrites them meanwhile, and rows fit."""
        found, q = self.found, self.values.of_shape(self.found.scores.inputs[0], self.heads_q)
        label = found.shares.name
        y = self._result(found.result, self.heads_y)
        inputs = (q, self.k, self.v, *([self.mask] if self.mask else []))
        names = [f"{label}/stats", f"{label}/rows"]
        outputs = (y, names[0], names[1]) if found.dv else (y, "", names[1])
        forward = self._node(ROWS, f"{found.scores.name}+{label}+{found.result.name}", inputs, outputs)
        groups: dict[str, tuple[Node, ...]] = {found.result.name: (forward,)}
        if found.dv and found.dp and found.dq and found.dk:
            dy = self.values.of_shape(found.dp.inputs[0], self.heads_y)
            operands = (dy, q, self.k, self.v, *([self.mask] if self.mask else []))
            numbers = (dy, q, self.k, self.v, self.mask, names[0])
            dot, rows = f"{label}/dot", (f"{label}/query_rows", f"{label}/key_rows")
            dq, dk, dv = self._result(found.dq, self.heads_q), *(n.outputs[0] for n in (found.dk, found.dv))
            first = next(n for n in self.values.graph.nodes if n in found.backward)
            groups[first.name] = (
                self._node(QUERY_GRAD, found.dq.name, operands, (dq, dot, rows[0])),
                self._node(KEY_GRAD, f"{found.dk.name}+{found.dv.name}", (*numbers, dot), (dk, dv, rows[1])),
            )
            if not dq or not dy:
                return None
        removed = (found.scores, found.shares, found.result, *found.backward)
        if not q or not y or not self._is_unwritten(removed) or not self._fit(groups.values()):
            return None
        return Region(removed, groups, self.types, self.viewed, self.from_first)

    def _result(self, node: Node, shape: Shape) -> str:
        """The value of a node, or the view of it that has the shape; empty where there is none."""
        name, tensors = node.outputs[0], self.program.tensors
        if tensors[name].type.shape == shape:
            return name
        views, view = self.values.views(name), self.values.of_shape(name, shape)
        seen = views & {*self.program.outputs, *self.program.updated} - {view}
        if not view or seen or tensors[name].storage != name or {tensors[n].role for n in views} != {"value"}:
            return ""
        self.viewed[name] = view
        return view

    def _node(self, op: str, name: str, inputs: Sequence[str], outputs: Sequence[str]) -> Node:
        """The node of a step, by blocks of rows if it has some and they fit; types of its results are kept."""
        single = Node(name, op, tuple(inputs), tuple(outputs), dict(self.attrs))
        blocked = replace(single, attrs={**self.attrs, ROWS_EACH: BLOCK})
        try:
            types = self._results(blocked)
            node = blocked if self._has_room(blocked, types) else single
        except ShapeMismatch:
            node = single
        for value, kind in self._results(node).items():
            tensor = self.program.tensors.get(value)
            if tensor is None or value in self.viewed.values():
                self.types[value] = kind
        return node

    def _results(self, node: Node) -> dict[str, TensorType]:
        known = self._known()
        kinds = operator_of(node).infer(node, [known[n] if n else None for n in node.inputs])
        return {n: kind for n, kind in zip(node.outputs, kinds, strict=True) if n}

    def _has_room(self, node: Node, types: Mapping[str, TensorType]) -> bool:
        """Whether each core has a block, and a tile of so many leaves a sixteenth of the budget."""
        access = operator_of(node).access(node, {**self._known(), **types})
        if math.prod(d.size for d in access.dims) < BLOCK * self.cores:
            return False
        return 16 * smallest(access, BLOCK * self.cores) <= 15 * self.budget

    def _known(self) -> Mapping[str, TensorType]:
        return {n: t.type for n, t in self.program.tensors.items()} | self.types

    def _is_unwritten(self, removed: Sequence[Node]) -> bool:
        """Whether no node between the first and the last of these writes what they read."""
        nodes = self.values.graph.nodes
        places = [nodes.index(n) for n in removed]
        reads = {self.program.storage(n) for n in (self.k, self.v, self.found.scores.inputs[0])}
        reads |= {self.program.storage(self.mask)} if self.mask else set()
        between = [n for n in nodes[min(places) : max(places)] if n not in removed]
        written = {self.program.storage(x) for n in between for x in n.outputs if x}
        late = {r for r in reads if not any(r in n.outputs for n in between)}
        return not late & written

    def _fit(self, groups: Iterable[tuple[Node, ...]]) -> bool:
        """Whether the smallest tile of each step takes at most three quarters of the budget: others have two slots.

        Blocks have room in any case.
        """
        known = self._known()
        single = [n for group in groups for n in group if ROWS_EACH not in n.attrs]
        return all(4 * smallest(operator_of(n).access(n, known)) <= 3 * self.budget for n in single)


def smallest(access: Access, rows: int = 1) -> int:
    """Bytes of the operands of a tile of some rows of one head."""
    tile = {d.name: (0, min(d.size, rows) if d == access.dims[-1] else 1) for d in access.dims}
    return sum(math.prod(n for _, n in o.box(tile)) * DTYPES["float32"] for o in access.operands)
