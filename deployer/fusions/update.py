"""Fusion of pass and update into one graph: a weight is updated after its last reader, and its gradient dies there."""

from dataclasses import replace

from deployer.core.errors import OptionProblem
from deployer.core.ir import Graph, Node, Program, Tensor
from deployer.core.plan import Options


def apply(program: Program, options: Options) -> Program:
    """Append the optimizer graph to the training graph if the options ask for it; this needs one pass per update."""
    if not options.fuse_update:
        return program
    if not options.updates_every_pass or len(program.graphs) != 2:
        raise OptionProblem(
            "--fused joins each pass with its update",
            [("passes per update", str(options.accumulate)), ("graphs", ", ".join(g.name for g in program.graphs))],
            "use it for training with --accumulate-grad-batches 1",
        )
    train, optimizer = program.graphs
    tensors = dict(program.tensors)
    names = {buffer: _gradient(program, train, tensors, buffer) for buffer in program.accumulators}
    own = {name for node in train.nodes for name in node.outputs}
    for name in {name for node in optimizer.nodes for name in (*node.inputs, *node.outputs) if name} - own:
        tensor = tensors[name]
        if tensor.role == "value" and tensor.storage in names:
            tensors[name] = replace(tensor, storage=names[tensor.storage])
    nodes = tuple(_renamed(node, names) for node in optimizer.nodes)
    return replace(program, tensors=tensors, graphs=(Graph(train.name, (*train.nodes, *nodes)),))


def _gradient(program: Program, train: Graph, tensors: dict[str, Tensor], buffer: str) -> str:
    """The last value that the training graph writes to an accumulator, through a view if its type differs."""
    values = [n for node in train.nodes for n in node.outputs if n and program.storage(n) == buffer]
    kind = program.tensors[buffer].type
    if not values or program.tensors[values[-1]].type == kind:
        return values[-1] if values else buffer
    view = f"{buffer}/gradient"
    tensors[view] = Tensor(view, kind, "value", values[-1])
    return view


def _renamed(node: Node, names: dict[str, str]) -> Node:
    return replace(node, inputs=tuple(names.get(name, name) for name in node.inputs))
