"""The part of a model that is quantized: all that depends on data and on frozen parameters alone."""

import re
from collections.abc import Sequence

from onnx import NodeProto

from deployer.core.errors import GraphProblem, OptionProblem, facts_of
from deployer.frontend.model_parts import reads
from deployer.quantization.graph import FloatGraph, label


def frozen_part(graph: FloatGraph, freeze: str | None) -> list[NodeProto]:
    """The nodes in front of the first layer that is trained, or all nodes where nothing is said.

    A layer is a node with parameters. It is frozen where `freeze` is found in their names or in its own. OptionProblem
    for an expression that is none or is found nowhere, GraphProblem for a frozen layer behind a trained one.
    """
    if freeze is None:
        return list(graph.nodes)
    try:
        pattern = re.compile(freeze)
    except re.error as error:
        hint = "an expression such as '^features'"
        raise OptionProblem(f"--freeze {freeze!r} is no regular expression", [("cause", str(error))], hint) from None
    layers = {id(node): list(graph.parameters(node)) for node in graph.nodes}
    frozen = {
        id(n) for n in graph.nodes if any(pattern.search(t) for t in (*layers[id(n)], *([n.name] if n.name else [])))
    }
    if not any(id(node) in frozen and layers[id(node)] for node in graph.nodes):
        raise _nothing_found(graph, freeze, layers.values())
    behind: dict[str, NodeProto] = {}
    part = []
    for node in graph.nodes:
        source = next((behind[name] for name in reads(node) if name in behind), None)
        if source is None and layers[id(node)] and id(node) not in frozen:
            source = node
        if source is None:
            part.append(node)
            continue
        if id(node) in frozen and layers[id(node)]:
            raise _behind(node, source, layers[id(node)], layers[id(source)])
        behind |= dict.fromkeys(node.output, source)
    return part


def _nothing_found(graph: FloatGraph, freeze: str, layers: object) -> OptionProblem:
    names = dict.fromkeys(name for node in graph.nodes for name in graph.parameters(node))
    facts = facts_of("parameter", list(names))
    return OptionProblem(f"--freeze {freeze!r} is found in no parameter's name", facts, "part of one of these names")


def _behind(node: NodeProto, source: NodeProto, frozen: Sequence[str], trained: Sequence[str]) -> GraphProblem:
    facts = [
        ("frozen", f"{label(node)}: {', '.join(frozen)}"),
        ("trained", f"{label(source)}: {', '.join(trained)}"),
    ]
    hint = "an expression that is also found in the name of the trained one, or none of the frozen one"
    cause = f"frozen layer {label(node)!r} lies behind {label(source)!r}, which is trained"
    return GraphProblem(cause, facts, hint)
