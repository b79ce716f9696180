"""Stage 2: checks the raw graphs and makes the typed program; an error names the faulty node or value."""

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from deployer.core.errors import DeployerWarning, GraphProblem, ShapeMismatch, Warn, python_warning
from deployer.core.ir import Graph, Node, Program, Role, Tensor, TensorType
from deployer.core.limits import check_total
from deployer.core.operator import Array, registry
from deployer.core.traits.training import Optimizer
from deployer.frontend.data_numbers import check_classes
from deployer.frontend.graph_inputs import Roles, inference_roles, optimizer_types, rename_private, training_roles
from deployer.frontend.graph_sort import check_producers, closure, live_nodes, topological
from deployer.frontend.node_checks import check_kernel
from deployer.frontend.optimizer_graph import prepared
from deployer.frontend.prepare import check_drawless, with_losses, with_passes
from deployer.frontend.raw_graph import RawGraph, Source
from deployer.frontend.resolve import Resolved, resolve
from deployer.lr_schedules.lr_schedule import LARGEST_RATE

_INT32 = np.iinfo(np.int32)


def check_program(
    source: Source,
    *,
    data_inputs: int | None = None,
    learning_rate: float | None = None,
    warn: Warn = python_warning,
) -> Program:
    """Type, fold, lower and join the graphs of a case.

    `data_inputs` is the number of inputs that change per sample (None: all before the first trained weight),
    `learning_rate` replaces that of the optimizer. `warn` gets a warning for each harmless oddity of the files.
    Raises GraphProblem, UnsupportedOperator, ShapeMismatch and OptionProblem.
    """
    main = source.main if source.optimizer is None else with_passes(with_losses(source.main))
    check_producers(main)
    if not main.outputs:
        raise GraphProblem(f"the {main.name} graph has no outputs", hint="declare the loss, or the results, as outputs")
    if source.optimizer is None:
        return _inference(main, warn)
    check_producers(source.optimizer)
    _check_shadowed(source.optimizer, main)
    optimizer = rename_private(prepared(source.optimizer, main, learning_rate), main)
    if learning_rate is None:
        _warn_of_rates(optimizer, warn)
    roles = training_roles(main, optimizer, data_inputs)
    loss = main.outputs[0]
    train = _resolved(main, (loss,), roles.types, warn)
    _check_loss(main, train, loss, roles.types)
    update = _resolved(optimizer, optimizer.outputs, optimizer_types(optimizer, roles.types), warn)
    for state, graph in ((train, main), (update, optimizer)):
        _check_inplace(state, graph.name, roles)
    _check_reachable(train, roles, loss)
    updated = _updated(update, optimizer, roles)
    _check_updates(update, updated, roles)
    nodes = Graph("train", _live(train, (loss,), roles)), Graph("optimizer", _live(update, optimizer.outputs, roles))
    _check_kernels(nodes[0], train)
    _check_kernels(nodes[1], update)
    tensors = _tensors(roles, ((nodes[0], train, (loss,)), (nodes[1], update, optimizer.outputs)))
    program = Program(
        tensors,
        nodes,
        data=roles.of("data"),
        weights=roles.of("weight"),
        accumulators=roles.of("accumulator"),
        flag="".join(roles.of("flag")),
        outputs=(loss,),
        updated=updated,
    )
    _check_constant_labels(program)
    return program


def _warn_of_rates(optimizer: RawGraph, warn: Warn) -> None:
    """Warn of rates of a file that a command line may not have; they are taken as they are."""
    operators = registry()
    for node in optimizer.nodes:
        declared = operators[node.op].role(Optimizer) if node.op in operators else None
        rate = node.attrs.get(declared.rate) if declared else None
        if isinstance(rate, int | float) and math.isfinite(rate) and not 0 < rate <= LARGEST_RATE:
            cause = f"node {node.name!r} ({node.op}) has the learning rate {rate:g}"
            warn(DeployerWarning(cause, [("usual", f"above 0, at most {LARGEST_RATE:g}")], "--lr 0.01"))


def _inference(main: RawGraph, warn: Warn) -> Program:
    check_drawless(main)
    roles = inference_roles(main)
    state = _resolved(main, main.outputs, roles.types, warn)
    _check_inplace(state, main.name, roles)
    graph = Graph("infer", _live(state, main.outputs, roles))
    _check_kernels(graph, state)
    tensors = _tensors(roles, ((graph, state, main.outputs),))
    program = Program(tensors, (graph,), roles.of("data"), roles.of("weight"), (), "", main.outputs, {})
    _check_constant_labels(program)
    return program


def _check_constant_labels(program: Program) -> None:
    """Raise DatasetMismatch for a constant label outside its classes; the dataset checks the labels of samples."""
    constants = {name: tensor.array for name, tensor in program.tensors.items() if tensor.role == "constant"}
    check_classes(program, constants, "constant")


def _resolved(graph: RawGraph, outputs: Sequence[str], inputs: dict[str, TensorType], warn: Warn) -> Resolved:
    operators = registry()
    nodes = live_nodes(topological(graph), outputs, {}, lambda n: n.op in operators and bool(operators[n.op].inplace))
    state = resolve(graph, nodes, inputs)
    for name in outputs:
        state.check_computed(name, f"the {graph.name} graph")
    for warning in state.notes:
        warn(warning)
    return state


def _live(state: Resolved, outputs: Sequence[str], roles: Roles) -> tuple[Node, ...]:
    """The nodes that an output depends on, and those that overwrite a weight or an accumulator."""

    def lasts(node: Node) -> bool:
        places = [node.inputs[source] for source in registry()[node.op].inplace.values()]
        return any(roles.roles.get(state.root(name)) in ("weight", "accumulator") for name in places)

    return live_nodes(state.nodes, outputs, state.storage, lasts)


def _check_kernels(graph: Graph, state: Resolved) -> None:
    for node in graph.nodes:
        check_kernel(node, state.types)


def _check_shadowed(optimizer: RawGraph, main: RawGraph) -> None:
    """Raise GraphProblem where the optimizer graph has an initializer for a weight with a value in inputs.npz."""
    operators = registry()
    updated = {
        n.inputs[i]
        for n in optimizer.nodes
        if n.op in operators
        for i in operators[n.op].inplace.values()
        if i < len(n.inputs)
    }
    updated |= {item.name for item in optimizer.inputs}
    for item in main.inputs:
        if item.name in optimizer.constants and item.name in updated:
            raise GraphProblem(
                f"the optimizer graph has an initializer over {item.name!r}, which is an input of the training graph",
                hint="remove the initializer: weights and buffers are shared by name",
            )


def _check_loss(main: RawGraph, train: Resolved, loss: str, inputs: Collection[str]) -> None:
    kind, root = train.types[loss], train.root(loss)
    if kind.dtype != "float32" or kind.size != 1 or root in inputs:
        raise ShapeMismatch(
            f"the first output of the training graph, {loss!r}, is not a loss",
            [("type", str(kind)), ("memory of", root), ("outputs", ", ".join(main.outputs))],
            "put the loss, one computed float, first among the outputs",
        )


def _check_inplace(state: Resolved, graph: str, roles: Roles) -> None:
    """An in-place node may overwrite values, weights and accumulators only, and no later node reads the old value."""
    for at, node in enumerate(state.nodes):
        for output, source in registry()[node.op].inplace.items():
            operand, result = node.inputs[source], node.outputs[output]
            root = state.root(operand)
            role = "constant" if root in state.constants else roles.roles.get(root, "value")
            if role in ("constant", "data", "flag"):
                raise GraphProblem(
                    f"node {node.name!r} ({node.op}) overwrites {operand!r}, which is a {role}",
                    [("graph", graph), ("memory of", root)],
                    "make it a weight or an accumulation buffer",
                )
            if any(name and i != source and state.root(name) == root for i, name in enumerate(node.inputs)):
                raise GraphProblem(
                    f"node {node.name!r} ({node.op}) overwrites {operand!r} and reads it as another operand, too",
                    [("graph", graph), ("operands", ", ".join(filter(None, node.inputs))), ("memory of", root)],
                    "give it an operand of its own",
                )
            _check_stale(state, graph, (node, root, result), state.nodes[at + 1 :])


def _check_stale(state: Resolved, graph: str, write: tuple[Node, str, str], later: Sequence[Node]) -> None:
    writer, root, result = write
    for reader in later:
        for name in filter(None, reader.inputs):
            if state.root(name) == root and result not in closure((name,), state.storage):
                raise GraphProblem(
                    f"node {reader.name!r} ({reader.op}) reads {name!r} after it was overwritten",
                    [("graph", graph), ("overwritten by", f"node {writer.name!r} ({writer.op})")],
                    f"read {result!r}, or place the reader first",
                )


def _check_reachable(train: Resolved, roles: Roles, loss: str) -> None:
    ancestors: set[str] = set(closure((loss,), train.storage))
    for node in reversed(train.nodes):
        if not ancestors.isdisjoint(node.outputs):
            ancestors.update(closure(filter(None, node.inputs), train.storage))
    for weight, buffer in roles.trained.items():
        if weight not in ancestors:
            raise GraphProblem(
                f"weight {weight!r} is unreachable: the loss {loss!r} does not depend on it",
                [("accumulator", buffer)],
                "use it in the model, or freeze it",
            )


def _updated(update: Resolved, optimizer: RawGraph, roles: Roles) -> dict[str, str]:
    """The weight that each optimizer output overwrites; exactly one output overwrites each trained weight."""
    updated: dict[str, str] = {}
    for output in optimizer.outputs:
        weight = update.root(output)
        if roles.roles.get(weight) != "weight":
            raise GraphProblem(
                f"optimizer output {output!r} overwrites no weight",
                [("memory of", weight)],
                "drop it from the outputs",
            )
        if weight in updated.values():
            raise GraphProblem(
                f"weight {weight!r} is updated twice by the optimizer graph",
                hint="keep one output per weight",
            )
        updated[output] = weight
    for weight in roles.trained:
        if weight not in updated.values():
            raise GraphProblem(
                f"weight {weight!r} goes into the optimizer graph, but no output overwrites it",
                [("outputs", ", ".join(optimizer.outputs))],
                "declare its updated value as an output",
            )
    return updated


def _check_updates(update: Resolved, updated: Mapping[str, str], roles: Roles) -> None:
    """Each update of a weight reads a gradient accumulator."""
    for output, weight in updated.items():
        if weight not in roles.trained:
            continue
        ancestors = set(closure((output,), update.storage))
        for node in reversed(update.nodes):
            if not ancestors.isdisjoint(node.outputs):
                ancestors.update(closure(filter(None, node.inputs), update.storage))
        if ancestors.isdisjoint(roles.of("accumulator")):
            raise GraphProblem(
                f"the update of weight {weight!r} reads no gradient accumulator",
                [("optimizer output", output), ("accumulator", roles.trained.get(weight, "none"))],
                "give the optimizer node the weight's accumulator",
            )


def _tensors(roles: Roles, graphs: Sequence[tuple[Graph, Resolved, Collection[str]]]) -> dict[str, Tensor]:
    """The graph inputs in file order, then the other tensors of the graphs in the order of their first use."""
    tensors = {n: Tensor(n, kind, roles.roles[n], n, _initial(roles, n)) for n, kind in roles.types.items()}
    for graph, state, outputs in graphs:
        names = [name for node in graph.nodes for name in (*node.inputs, *node.outputs)]
        for name in closure(filter(None, (*names, *outputs)), state.storage):
            if name not in tensors:
                tensors[name] = _tensor(state, name)
    check_total(graphs[0][0].name, [tensor.type for tensor in tensors.values() if tensor.storage == tensor.name])
    return tensors


def _initial(roles: Roles, name: str) -> bytes | None:
    """The initial content of an optimizer state as float32; None for an input with a value in inputs.npz."""
    if name not in roles.initial:
        return None
    kind = roles.types[name]
    return np.full(kind.shape, roles.initial[name], np.dtype(kind.dtype).newbyteorder("<")).tobytes()


def _tensor(state: Resolved, name: str) -> Tensor:
    kind = state.types[name]
    if kind.size < 1:
        raise ShapeMismatch(
            f"{name!r} has no elements", [("type", str(kind))], "remove the part of the graph that uses it"
        )
    role: Role = "constant" if name in state.constants else "value"
    data = _packed(name, kind.dtype, state.constants[name]) if role == "constant" else None
    return Tensor(name, kind, role, state.storage.get(name, name), data)


def _packed(name: str, dtype: str, array: Array) -> bytes:
    """The array as little-endian numbers of that type; raises ShapeMismatch for an integer beyond int32."""
    if array.dtype.kind == "f":
        return array.astype("<f4").tobytes()
    if dtype == "int8":
        return array.astype(np.int8).tobytes()
    if array.size and (array.min() < _INT32.min or array.max() > _INT32.max):
        far = array.min() if array.min() < _INT32.min else array.max()
        raise ShapeMismatch(
            f"constant {name!r} holds {far}, which int32 cannot hold",
            [("int32", f"{_INT32.min} to {_INT32.max}")],
            "use smaller integers, or float32",
        )
    return array.astype("<i4").tobytes()
