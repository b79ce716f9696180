"""The judge of checked programs, one rule per function; nothing here calls the check stage."""

from collections import Counter
from collections.abc import Iterable, Iterator

from deployer.core.errors import DeployerError, VerifyFailed
from deployer.core.ir import DTYPES, Graph, Node, Program, Role, Tensor
from deployer.core.operator import Operator, fused_update, registry
from deployer.core.traits.training import Counter as UpdateCounter
from deployer.core.traits.training import Optimizer


def verify_program(program: Program) -> None:
    """Raise VerifyFailed where a program breaks a rule: ssa, producer, storage, order, typed or reachable."""
    _dtypes(program)
    _ssa(program)
    _operators(program)
    _producers(program)
    _storage(program)
    _order(program)
    _typed(program)
    _no_dead_nodes(program)
    _loss_reaches_weights(program)


def _need(holds: bool, rule: str, cause: str, *facts: tuple[str, str]) -> None:
    if not holds:
        raise VerifyFailed(rule, cause, facts)


def _names(names: Iterable[str]) -> list[str]:
    return [name for name in names if name]


def _ssa(program: Program) -> None:
    """Names are unique, each name in use exists, and the program's list of each role holds the tensors of that role."""
    for key, tensor in program.tensors.items():
        _need(key == tensor.name, "ssa", f"tensor {tensor.name!r} is filed under {key!r}")
    for label, names in (
        ("node", [n.name for n in program.nodes]),
        ("graph", [g.name for g in program.graphs]),
    ):
        twice = [name for name, count in Counter(names).items() if count > 1]
        _need(not twice, "ssa", f"{label} name {twice[:1]} is defined twice")
    for node in program.nodes:
        for name in _names((*node.inputs, *node.outputs)):
            _need(name in program.tensors, "ssa", f"node {node.name!r} uses {name!r}, which does not exist")
    lists: tuple[tuple[Role, tuple[str, ...]], ...] = (
        ("data", program.data),
        ("weight", program.weights),
        ("accumulator", program.accumulators),
        ("flag", (program.flag,) if program.flag else ()),
    )
    for role, role_names in lists:
        expected = [t.name for t in program.tensors.values() if t.role == role]
        _need(
            list(role_names) == expected,
            "ssa",
            f"the list of role {role} differs from the tensors",
            ("tensors", str(expected)),
        )
    _need(set(program.held) <= set(program.data), "ssa", f"held {program.held} are not all data inputs")
    for name in (*program.outputs, *program.updated, *program.updated.values()):
        _need(name in program.tensors, "ssa", f"output {name!r} does not exist")


def _producers(program: Program) -> None:
    """Exactly one node produces a value, at most one if it is a view; no node produces any other tensor."""
    producers = Counter(name for node in program.nodes for name in _names(node.outputs))
    for tensor in program.tensors.values():
        count = producers[tensor.name]
        view = tensor.role == "value" and tensor.storage != tensor.name
        counts = (0, 1) if view else (1,) if tensor.role == "value" else (0,)
        _need(count in counts, "producer", f"{tensor.role} {tensor.name!r} has {count} producers")


def _storage(program: Program) -> None:
    """A view fits its storage, a constant has content, and an in-place output overwrites its operand."""
    for tensor in program.tensors.values():
        root = program.tensors[_chain(program, tensor.name)[-1]]
        _need(
            tensor.role == "value" or root is tensor,
            "storage",
            f"{tensor.role} {tensor.name!r} has another's memory",
        )
        same = tensor.type.bytes == root.type.bytes and tensor.type.dtype == root.type.dtype
        types = f"{tensor.type} in {root.type}"
        _need(same, "storage", f"{tensor.name!r} does not fit the memory of {root.name!r}", ("types", types))
        filled = tensor.data is not None
        holds = filled and len(tensor.data or b"") == tensor.type.bytes
        valid = {"constant": holds, "weight": holds or not filled}.get(tensor.role, not filled)
        _need(valid, "storage", f"{tensor.name!r} has wrong content")
    for node in program.nodes:
        _in_place(program, node)
    for output, weight in program.updated.items():
        in_place = program.tensors[weight].role == "weight" and _chain(program, output)[-1] == weight
        _need(in_place, "storage", f"{output!r} does not lie in weight {weight!r}")
    _need(
        len(set(program.updated.values())) == len(program.updated),
        "storage",
        "a weight is the memory of two updated values",
    )


def _in_place(program: Program, node: Node) -> None:
    """Each output of a node has its own memory, fills an accumulator, or overwrites the operator's in-place operand."""
    inplace = registry()[node.op].inplace
    for position, name in enumerate(node.outputs):
        if not name:
            continue
        source = node.inputs[inplace[position]] if position in inplace else name
        place = f"node {node.name!r} ({node.op})"
        storage = program.tensors[name].storage
        accumulates = position not in inplace and program.tensors[storage].role == "accumulator"
        _need(storage == source or accumulates, "storage", f"{place}: {name!r} does not lie in {source!r}")
        role = program.tensors[_chain(program, name)[-1]].role
        _need(role in ("value", "weight", "accumulator"), "storage", f"{place} overwrites a {role}")


def _chain(program: Program, name: str) -> list[str]:
    """The tensors from `name` along its storage to the tensor that owns the memory, which comes last."""
    chain = [name]
    while program.tensors[chain[-1]].storage != chain[-1]:
        following = program.tensors[chain[-1]].storage
        _need(
            following in program.tensors,
            "storage",
            f"{chain[-1]!r} lies in {following!r}, which does not exist",
        )
        _need(
            following not in chain,
            "storage",
            f"the storage of {name!r} goes round",
            ("round", " -> ".join(chain)),
        )
        chain.append(following)
    return chain


def _order(program: Program) -> None:
    """An earlier node of the same graph computes each value that a node reads, and no node overwrites it in between."""
    produced = {name for node in program.nodes for name in _names(node.outputs)}
    for graph in program.graphs:
        defined: set[str] = set()
        newest: dict[str, str] = {}
        for node in graph.nodes:
            for name in _names(node.inputs):
                chain = _chain(program, name)
                source = next((link for link in chain if link in produced), chain[-1])
                available = source in defined if source in produced else program.tensors[source].role != "value"
                _need(available, "order", f"node {node.name!r} reads {name!r} before it is made")
                fresh = newest.get(chain[-1], chain[-1])
                _need(
                    fresh in chain,
                    "order",
                    f"node {node.name!r} reads {name!r}, which {fresh!r} has overwritten",
                )
            for name in _names(node.outputs):
                defined.add(name)
                newest[_chain(program, name)[-1]] = name


def _operators(program: Program) -> None:
    for node in program.nodes:
        operator = registry().get(node.op)
        _need(operator is not None, "typed", f"node {node.name!r} ({node.op}) is not an operator")
        _need(
            operator is None or operator.kernel is not None,
            "typed",
            f"node {node.name!r} ({node.op}) has no kernel",
        )


def _dtypes(program: Program) -> None:
    """Each tensor has a dtype of the target and at least one element."""
    for tensor in program.tensors.values():
        valid = tensor.type.dtype in DTYPES and all(size > 0 for size in tensor.type.shape)
        _need(valid, "typed", f"{tensor.name!r} has no usable type", ("type", str(tensor.type)))


def _typed(program: Program) -> None:
    """The types that each operator infers are those of the node's outputs."""
    for node in program.nodes:
        try:
            types = registry()[node.op].infer(node, [program.tensors[n].type if n else None for n in node.inputs])
        except DeployerError as error:
            raise VerifyFailed("typed", error.cause, error.facts) from error
        for name, expected in zip(node.outputs, types, strict=False):
            declared = program.tensors[name].type if name else expected
            place = f"node {node.name!r} ({node.op}) gives {name!r} another type"
            _need(declared == expected, "typed", place, ("types", f"{declared}, by its inputs {expected}"))


def _no_dead_nodes(program: Program) -> None:
    """A program output depends on each node, or the node writes a weight or an accumulator."""
    live = _links(program, (*program.outputs, *program.updated))
    for graph in reversed(program.graphs):
        for node in reversed(graph.nodes):
            lasting = any(_lasting(program.tensors[_chain(program, n)[-1]]) for n in _names(node.outputs))
            used = lasting or not live.isdisjoint(_names(node.outputs))
            _need(used, "reachable", f"nothing needs node {node.name!r} ({node.op}) of the {graph.name} graph")
            live |= _links(program, _names(node.inputs))


def _lasting(tensor: Tensor) -> bool:
    return tensor.role in ("weight", "accumulator")


def _links(program: Program, names: Iterable[str]) -> set[str]:
    return {link for name in names for link in _chain(program, name)}


def _ancestors(program: Program, graph: Graph, name: str) -> set[str]:
    """All tensors of a graph that `name` depends on, `name` and their storages included."""
    ancestors = _links(program, (name,))
    for node in reversed(graph.nodes):
        if not ancestors.isdisjoint(_names(node.outputs)):
            ancestors |= _links(program, _names(node.inputs))
    return ancestors


def _loss_reaches_weights(program: Program) -> None:
    """The loss depends on each trained weight, and its update reads accumulators that the training graph writes.

    One that makes the gradient itself has none; it depends on the samples.
    """
    if not program.updated:
        return
    train, makers = program.graphs[0], [g for g in program.graphs if any(n in _made(g) for n in program.updated)]
    optimizer = makers[-1] if makers else program.graphs[-1]
    before_loss = _ancestors(program, train, program.outputs[0])
    train_outputs = {_chain(program, name)[-1] for node in train.nodes for name in _names(node.outputs)}
    states, nodes = set(_states(program, optimizer)), {name: node for node in optimizer.nodes for name in node.outputs}
    for output, weight in program.updated.items():
        if weight in states:
            continue
        _need(weight in before_loss, "reachable", f"the loss does not depend on weight {weight!r}")
        sources = _ancestors(program, optimizer, output)
        accumulators = sources & set(program.accumulators)
        if not accumulators and output in nodes and fused_update(registry()[nodes[output].op]):
            _need(not sources.isdisjoint(program.data), "reachable", f"the update of {weight!r} depends on no sample")
            continue
        _need(bool(accumulators), "reachable", f"the update of {weight!r} reads no accumulator")
        for name in sorted(accumulators):
            _need(name in train_outputs, "reachable", f"no node of the training graph writes accumulator {name!r}")


def _made(graph: Graph) -> set[str]:
    """The values that a graph's nodes make."""
    return {name for node in graph.nodes for name in node.outputs}


def _states(program: Program, graph: Graph) -> Iterator[str]:
    """The storage of each optimizer state, which lasts from one update to the next."""
    for node in graph.nodes:
        operator = registry()[node.op]
        counter = operator.role(UpdateCounter)
        for position in (*_state_positions(operator), *([counter.operand] if counter else ())):
            yield _chain(program, node.inputs[position])[-1]


def _state_positions(operator: Operator) -> Iterator[int]:
    """Positions of an optimizer's states among its inputs; a fused update writes them in place."""
    update = registry().get(fused_update(operator), operator)
    if declared := update.role(Optimizer):
        yield from (operator.inplace[result] for result, source in update.inplace.items() if source in declared.states)
