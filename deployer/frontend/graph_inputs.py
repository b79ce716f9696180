"""The role of each graph input, and the names that the optimizer graph shares with the training graph."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from deployer.core.errors import GraphProblem, OptionProblem, ShapeMismatch
from deployer.core.ir import Node, Role, TensorType
from deployer.core.limits import check_type
from deployer.core.operator import accumulator_of, registry, unsupported, usual_accumulator
from deployer.core.traits.training import Counter, Keeper, Optimizer, State
from deployer.frontend.raw_graph import FileInput, RawGraph

BUFFER_SUFFIX = "_grad.accumulation.buffer"


@dataclass(frozen=True)
class Roles:
    """The type and the role of each graph input, in file order; `trained` maps each trained weight to its accumulator.

    `initial` holds the value of each element of an optimizer state before the first update, unless inputs.npz has it.
    """

    types: dict[str, TensorType]
    roles: dict[str, Role]
    trained: dict[str, str]
    initial: dict[str, float]

    def of(self, role: Role) -> tuple[str, ...]:
        """The inputs with a role, in file order."""
        return tuple(name for name, kind in self.roles.items() if kind == role)


def inference_roles(graph: RawGraph) -> Roles:
    """Every input that has no initializer is data, but for what is kept from pass to pass."""
    types = static_types(i for i in graph.inputs if i.name not in graph.constants)
    kept = {name: state.initial for name, state in state_inputs(graph).items()}
    roles: dict[str, Role] = {name: "weight" if name in kept else "data" for name in types}
    return Roles(types, roles, {}, kept)


def training_roles(train: RawGraph, optimizer: RawGraph, data_inputs: int | None) -> Roles:
    """The roles by use: accumulating nodes read accumulators and the flag, the optimizer graph reads trained weights.

    A state that only the optimizer graph has is a weight; its operator declares the initial value.
    `data_inputs` says how many of the first inputs are data; None: all before the first trained weight.
    """
    steps = [(node, accumulator) for node in train.nodes if (accumulator := accumulator_of(node))]
    for node, accumulator in steps:
        if len(node.inputs) <= max(accumulator.buffer, accumulator.gradient, accumulator.flag) or not all(node.inputs):
            raise unsupported(node, f"it has {len(node.inputs)} inputs", "buffer, gradient and reset flag")
    sinks = {node.inputs[accumulator.buffer] for node, accumulator in steps}
    buffers = sinks | {i.name for i in train.inputs if i.name.endswith(BUFFER_SUFFIX)}
    flags = {node.inputs[accumulator.flag] for node, accumulator in steps}
    states, train_names = state_inputs(optimizer), {i.name for i in train.inputs}
    counts = state_inputs(train)
    state_types = static_types(i for i in optimizer.inputs if i.name in states and i.name not in train_names)
    shared = {i.name for i in optimizer.inputs if i.name not in optimizer.constants and i.name not in state_types}
    inputs = [i for i in train.inputs if i.name in shared | buffers | flags or i.name not in train.constants]
    names = [i.name for i in inputs]
    _check_join(names, shared, flags, buffers)
    trained = {n: _buffer_of(n, buffers, optimizer) for n in names if n in shared - buffers - set(states)}
    _check_buffers(buffers & set(names), sinks, trained)
    free = [n for n in names if n not in buffers and n not in flags]
    first = min((free.index(n) for n in trained), default=len(free))
    count = first if data_inputs is None else data_inputs
    if not 0 <= count <= first:
        place = repr(free[first]) if first < len(free) else "the end"
        raise OptionProblem(
            f"{count} data inputs do not fit the training graph",
            [("inputs", ", ".join(free)), ("data at most", f"{first}, before {place}")],
            "give the number of inputs that change from sample to sample",
        )
    roles: dict[str, Role] = {}
    for name in names:
        at: Role = "data" if name in free[:count] else "weight"
        roles[name] = "accumulator" if name in buffers else "flag" if name in flags else at
    roles |= dict.fromkeys(state_types, "weight")
    return Roles(
        static_types(inputs) | state_types,
        roles,
        trained,
        {n: states[n].initial for n in state_types} | {n: counts[n].initial for n in names if n in counts},
    )


def state_inputs(graph: RawGraph) -> dict[str, State]:
    """The graph's inputs that hold a state from one run to the next, such as a momentum or a count."""
    inputs = {i.name for i in graph.inputs if i.name not in graph.constants}
    states = {}
    for node in graph.nodes:
        for position, state in _states(node).items():
            if position < len(node.inputs) and node.inputs[position] in inputs:
                states[node.inputs[position]] = state
    return states


def _states(node: Node) -> Mapping[int, State]:
    """The states of a node by the positions of its inputs."""
    operator = registry().get(node.op)
    match operator.training if operator else None:
        case Counter(operand=operand, state=state) | Keeper(operand=operand, state=state):
            return {operand: state}
        case Optimizer(states=states):
            return states
    return {}


def _check_join(names: list[str], shared: set[str], flags: set[str], buffers: set[str]) -> None:
    for name in sorted(flags & (shared | buffers)):
        raise GraphProblem(
            f"{name!r} is a reset flag and a {'weight' if name in shared - buffers else 'gradient buffer'} as well",
            hint="two inputs, one for each",
        )
    for name in sorted(shared - set(names)):
        raise GraphProblem(
            f"optimizer input {name!r} is not an input of the training graph",
            [("training inputs", ", ".join(names))],
            "give both graphs the same names",
        )
    for name in sorted((flags | buffers) - set(names)):
        raise GraphProblem(
            f"{name!r} feeds a gradient accumulation, but is not a graph input",
            [("training inputs", ", ".join(names))],
            "make buffers and the reset flag graph inputs",
        )
    if len(flags) > 1:
        raise GraphProblem(
            "the training graph has several reset flags", [("flags", ", ".join(sorted(flags)))], "use one"
        )


def _buffer_of(weight: str, buffers: set[str], optimizer: RawGraph) -> str:
    """The accumulator that an optimizer node reads together with the weight, else the one with its name."""
    for node in optimizer.nodes:
        if weight in node.inputs:
            neighbours = [n for n in node.inputs if n in buffers]
            if len(neighbours) == 1:
                return neighbours[0]
    if weight + BUFFER_SUFFIX in buffers:
        return weight + BUFFER_SUFFIX
    raise GraphProblem(
        f"weight {weight!r} is in the optimizer graph, but has no gradient accumulator",
        [("looked for", weight + BUFFER_SUFFIX)],
        "export the training graph with this parameter trainable",
    )


def _check_buffers(buffers: set[str], sinks: set[str], trained: Mapping[str, str]) -> None:
    for weight, buffer in trained.items():
        if buffer not in sinks:
            raise GraphProblem(
                f"weight {weight!r} is unreachable: no {usual_accumulator().name} writes its accumulator",
                [("accumulator", buffer)],
                "export the training graph again, or take the weight out of the optimizer graph",
            )
    for buffer in sorted(buffers - set(trained.values())):
        raise GraphProblem(
            f"accumulator {buffer!r} belongs to no weight that the optimizer graph updates",
            [("updated", ", ".join(trained) or "none")],
            "add the weight to the optimizer graph, or freeze it in the training graph",
        )


def static_types(items: Iterable[FileInput]) -> dict[str, TensorType]:
    """The types of inputs; ShapeMismatch for all that have no dtype or no static shape in the file, at once."""
    listed = list(items)
    faulty = [item for item in listed if not item.declared.static]
    if faulty:
        names = ", ".join(repr(item.name) for item in faulty)
        inputs, have = ("graph input", "has") if len(faulty) == 1 else ("graph inputs", "have")
        cause = f"{inputs} {names} {have} no static type with at least one element"
        raise ShapeMismatch(cause, [(item.name, str(item.declared)) for item in faulty], _remedies(faulty))
    types = {item.name: TensorType(item.declared.dtype, item.declared.shape or ()) for item in listed}
    for name, kind in types.items():
        check_type(f"graph input {name!r}", kind)
    return types


def _remedies(items: Sequence[FileInput]) -> str:
    """The options by which the inputs would be static, if there are any."""
    batch, named = False, dict[str, None]()
    for item in items:
        shape, axes = item.declared.shape, item.declared.axes
        if shape is None or 0 in shape:
            return "export with static shapes, for example a fixed batch size"
        for place, length in enumerate(shape):
            batch |= length < 0 and not place
            if length < 0 and place and not axes[place]:
                return "export with static shapes: --batch-size is for first axes, --axis for axes with a name"
            named |= {axes[place]: None} if length < 0 and place else {}
    options = ["--batch-size N"] * batch + [f"--axis {name}=N" for name in named]
    return f"{' '.join(options)}, or export with static shapes"


def optimizer_types(optimizer: RawGraph, shared: Mapping[str, TensorType]) -> dict[str, TensorType]:
    """The training graph's types of the optimizer graph's inputs; raises ShapeMismatch where the two differ."""
    types = {}
    for item in optimizer.inputs:
        if item.name in optimizer.constants:
            continue
        ours, declared = shared[item.name], item.declared
        static = declared.shape is not None and all(d >= 0 for d in declared.shape)
        if declared.dtype not in ("", ours.dtype) or (static and declared.shape != ours.shape):
            raise ShapeMismatch(
                f"{item.name!r} differs between the training and the optimizer graph",
                [
                    ("training", str(ours)),
                    ("optimizer", str(TensorType(declared.dtype or "?", declared.shape or ()))),
                ],
                "export both graphs from the same model",
            )
        types[item.name] = ours
    return types


def rename_private(optimizer: RawGraph, train: RawGraph) -> RawGraph:
    """The optimizer graph with the prefix `optimizer/` on its own values and nodes that share a training name."""
    train_names = {i.name for i in train.inputs} | set(train.constants) | {o for n in train.nodes for o in n.outputs}
    private = set(optimizer.constants) | {o for n in optimizer.nodes for o in n.outputs if o}
    private -= {i.name for i in optimizer.inputs if i.name not in optimizer.constants}
    private |= state_inputs(optimizer).keys() - {i.name for i in train.inputs}
    labels = {n.name for n in train.nodes}

    def value(name: str) -> str:
        return f"optimizer/{name}" if name in private & train_names else name

    def label(name: str) -> str:
        return f"optimizer/{name}" if name in labels else name

    def renamed(node: Node) -> Node:
        inputs, outputs = tuple(map(value, node.inputs)), tuple(map(value, node.outputs))
        return replace(node, name=label(node.name), inputs=inputs, outputs=outputs)

    return replace(
        optimizer,
        nodes=tuple(map(renamed, optimizer.nodes)),
        inputs=tuple(replace(i, name=value(i.name)) for i in optimizer.inputs),
        outputs=tuple(map(value, optimizer.outputs)),
        constants={value(n): c for n, c in optimizer.constants.items()},
        declared={value(n): d for n, d in optimizer.declared.items()},
        domains={label(n): d for n, d in optimizer.domains.items()},
        versions={label(n): v for n, v in optimizer.versions.items()},
        elements={value(n): e for n, e in optimizer.elements.items()},
    )
