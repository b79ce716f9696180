"""Views between two nodes: an elementwise operator may act on a value in the shape that its producer gives it.

A linear layer of a sequence computes rows of all its places at once, and what follows sees them in sentences. A view
costs nothing, but it would keep a product from adding what is added to its result, or from applying an activation.
"""

from dataclasses import replace

from deployer.core.ir import Node, Program, Tensor, TensorType


def before_view(program: Program, consumer: Node, place: int) -> tuple[Program, Node] | None:
    """The program whose consumer reads the source of the view that is its input `place`, and the consumer in it.

    Its result has the source's shape, and its readers see that in the shape that it had. None where the input is no
    view, where the source is read by others, or where an operand has another shape than the result and is not one
    number or a row along the last axis, which both shapes have.
    """
    view, result = consumer.inputs[place], consumer.outputs[0]
    seen, source = program.tensors[view], program.tensors[program.tensors[view].storage]
    after = program.tensors[result]
    if seen is source or not _is_private(program, seen, source) or len(consumer.outputs) > 1:
        return None
    if after.type != seen.type or after.storage != result or after.role != "value" or result in program.updated:
        return None
    tensors = {name: tensor for name, tensor in program.tensors.items() if name != view}
    inputs = []
    for position, name in enumerate(consumer.inputs):
        own = source.name if position == place else name and _seen_as(tensors, name, seen.type, source.type)
        if own is None:
            return None
        inputs.append(own)
    made = _shaped(result, source.type)
    if made in tensors:
        return None
    tensors[made] = Tensor(made, source.type, "value", made)
    tensors[result] = replace(after, storage=made)
    new = replace(consumer, inputs=tuple(inputs), outputs=(made,))
    graphs = tuple(replace(g, nodes=tuple(new if n is consumer else n for n in g.nodes)) for g in program.graphs)
    return replace(program, tensors=tensors, graphs=graphs), new


def alike_named(program: Program) -> Program:
    """The program whose nodes read all views of a memory that have the same type by the name of the first of these.

    Views that nothing reads any more are gone.
    """
    kept = {n for node in program.nodes for n in node.outputs} | {*program.outputs, *program.updated}
    read = {name for node in program.nodes for name in node.inputs} | {t.storage for t in program.tensors.values()}
    first: dict[tuple[str, TensorType], str] = {}
    other: dict[str, str] = {}
    gone = set()
    for name, tensor in program.tensors.items():
        if tensor.role == "value" and tensor.storage != name and name not in kept:
            one = first.setdefault((tensor.storage, tensor.type), name) if name in read else ""
            other |= {name: one} if name in read else {}
            gone |= {name} - {one}
    if not gone:
        return program
    tensors = {
        n: replace(t, storage=other.get(t.storage, t.storage)) for n, t in program.tensors.items() if n not in gone
    }
    graphs = tuple(
        replace(g, nodes=tuple(replace(n, inputs=tuple(other.get(x, x) for x in n.inputs)) for n in g.nodes))
        for g in program.graphs
    )
    return replace(program, tensors=tensors, graphs=graphs)


def _is_private(program: Program, seen: Tensor, source: Tensor) -> bool:
    """Whether a value is read once, by the name of its only view, which has all its elements."""
    names = {seen.name, source.name}
    if source.role != "value" or source.storage != source.name or seen.storage != source.name:
        return False
    if (seen.type.size, seen.type.dtype) != (source.type.size, source.type.dtype):
        return False
    views = [t.name for t in program.tensors.values() if t.storage in names and t.name != source.name]
    reads = [name for node in program.nodes for name in node.inputs if name in names]
    outlives = names & {*program.outputs, *program.updated}
    return views == [seen.name] == reads and not outlives


def _seen_as(tensors: dict[str, Tensor], name: str, seen: TensorType, kind: TensorType) -> str | None:
    """The operand in the source's shape: itself, what it is a view of, or a view of it; None where it has none."""
    tensor = tensors[name]
    if tensor.type != seen:
        is_row = tensor.type.shape == seen.shape[-1:] == kind.shape[-1:]
        return name if tensor.type.size == 1 or is_row else None
    if tensors[tensor.storage].type == kind:
        return tensor.storage
    view = _shaped(name, kind)
    known = tensors.setdefault(view, Tensor(view, kind, "value", name))
    return view if (known.type, known.storage) == (kind, name) else None


def _shaped(name: str, kind: TensorType) -> str:
    return f"{name}/{'x'.join(map(str, kind.shape))}"
