"""The optimizer graph: each parameter with its gradient, limited where that is asked for, and with its state."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_graphsurgeon as gs

from deployer.core.errors import OptionProblem
from deployer.core.ir import GraphNames, Node, TensorType
from deployer.core.operator import file_of, operator_of, update_counter
from deployer.core.traits.training import Counter, Optimizer
from deployer.frontend.graph_inputs import BUFFER_SUFFIX
from deployer.operators.update.accumulation import by_norm, by_value
from deployer.training.groups import GroupRule
from deployer.training.onnx_writer import file_domain, input_form, save_graph


@dataclass(frozen=True)
class Limits:
    """Limits of gradients: of the magnitude of an element, and of the norm of all gradients; None for no limit."""

    value: float | None = None
    norm: float | None = None

    def __post_init__(self) -> None:
        """Refuse a limit that is not positive in float32."""
        for flag, limit in (("--max-grad-value", self.value), ("--max-grad-norm", self.norm)):
            with np.errstate(over="ignore"):
                narrow = np.float32(1 if limit is None else limit)
            if not (np.isfinite(narrow) and narrow > 0):
                raise OptionProblem(f"{flag} {limit} is not positive", [("in float32", str(narrow))], f"{flag} 1")


def write_optimizer(
    types: Mapping[str, TensorType],
    taken: Iterable[str],
    rules: Mapping[str, GroupRule],
    limits: Limits,
    opset: int,
    path: Path,
) -> None:
    """The optimizer graph: each parameter with its buffer, and with what the optimizer keeps -> `<name>_updated`.

    `types` are those of the parameters, `taken` further names of the training graph.
    """
    names = GraphNames({f"{n}{suffix}" for n in types for suffix in ("", BUFFER_SUFFIX, "_updated")} | {*taken})
    graph = gs.Graph(name="optimizer", opset=opset)
    buffers = {n: gs.Variable(n + BUFFER_SUFFIX, np.float32, kind.shape) for n, kind in types.items()}
    rates: dict[float, gs.Constant] = {}
    shared: dict[str, gs.Variable] = {}
    gradients = _limited(graph, buffers, limits, names)
    for name, kind in types.items():
        rule = rules[name]
        operator, declared = rule.operator, rule.operator.role(Optimizer)
        assert declared is not None, f"{operator.name} is not an optimizer"
        rate_inputs = [i for i, attribute in file_of(operator).static_inputs.items() if attribute == declared.rate]
        if rate_inputs and rule.rate not in rates:
            rates[rule.rate] = gs.Constant(names.fresh("learning_rate"), np.array(rule.rate, np.float32))
        if declared.count is not None and not shared:
            count = _count(names)
            shared[count.name] = count
            graph.inputs.insert(0, count)
        attrs = {**({} if rate_inputs else {declared.rate: float(rule.rate)}), **rule.attributes}
        places = {declared.weight: name}
        places |= {i: names.fresh(name + state.suffix) for i, state in sorted(declared.states.items())}
        own = {i: gs.Variable(n, np.float32, kind.shape) for i, n in places.items()}
        operands = own | {declared.gradient: gradients[name]}
        operands |= {i: rates[rule.rate] for i in rate_inputs}
        operands |= {} if declared.count is None else {declared.count: next(iter(shared.values()))}
        updated = {i: f"{places[source]}_updated" for i, source in operator.inplace.items()}
        results = {i: gs.Variable(n, np.float32, kind.shape) for i, n in updated.items()}
        lists, label = (_tensor_list(operands), _tensor_list(results)), f"{operator.name.lower()}_{name}"
        graph.nodes.append(gs.Node(operator.name, label, attrs, *lists, file_domain(operator)))
        inputs = own | {declared.gradient: buffers[name]}
        graph.inputs += [inputs[i] for i in sorted(inputs)]
        graph.outputs += results.values()
    save_graph(graph, path)


def _limited(
    graph: gs.Graph, buffers: Mapping[str, gs.Variable], limits: Limits, names: GraphNames
) -> dict[str, gs.Tensor]:
    """The gradient of each parameter as the optimizer reads it, by nodes that are added to the graph."""
    gradients = {name: buffer.name for name, buffer in buffers.items()}
    nodes: list[Node] = []
    for limit, rule in ((limits.value, by_value), (limits.norm, by_norm)):
        if limit is not None:
            further, gradients = rule(gradients, float(limit), names.fresh)
            nodes += further
    tensors: dict[str, gs.Tensor] = {buffer.name: buffer for buffer in buffers.values()}
    for plain in nodes:
        node, constants = input_form(plain, graph.opset, names.fresh)
        tensors |= {name: gs.Constant(name, array) for name, array in constants.items()}
        inputs, outputs = (
            [tensors.setdefault(n, gs.Variable(n, np.float32)) if n else gs.Variable.empty() for n in listed]
            for listed in (node.inputs, node.outputs)
        )
        domain = file_domain(operator_of(node))
        graph.nodes.append(gs.Node(node.op, node.name, dict(node.attrs), inputs, outputs, domain))
    return {name: tensors[gradient] for name, gradient in gradients.items()}


def _count(names: GraphNames) -> gs.Variable:
    """The number of the update, which all optimizers read, and which the program that runs the graph keeps."""
    counter = update_counter().role(Counter)
    assert counter is not None
    return gs.Variable(names.fresh(counter.state.suffix), np.int64, (1,))


def _tensor_list(values: Mapping[int, gs.Tensor]) -> list[gs.Tensor]:
    """Tensors by position as a list, with an empty variable at each absent position."""
    return [values.get(i, gs.Variable.empty()) for i in range(max(values) + 1)]
