"""A float model as quantization takes it: nodes alone, constants by name, and which of them read what."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from deployer.core.errors import GraphProblem
from deployer.core.ir import GraphNames, TensorType
from deployer.core.operator import Array
from deployer.frontend.model_parts import inlined, reads
from deployer.frontend.prepare import to_array
from deployer.frontend.quantized.packing import ONNX_DOMAINS


class FloatGraph:
    """The nodes of a model that its outputs need, producers first, and its constants by name.

    Calls of functions are replaced by their nodes. Constants that nodes hold, and other names of constants, become
    initializers.
    """

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self.nodes = [node for node, _ in inlined(model)]
        del model.functions[:]
        self.initializers = {tensor.name: tensor for tensor in model.graph.initializer}
        self._constants()
        self.outputs = [value.name for value in model.graph.output]
        self.inputs = [value.name for value in model.graph.input if value.name not in self.initializers]
        self.nodes = self._live()
        values = [v.name for v in (*model.graph.input, *model.graph.output, *model.graph.value_info)]
        named = (name for node in self.nodes for name in (*reads(node), *node.output))
        self.names = GraphNames({*values, *self.initializers, *named})
        self.opset = max([entry.version for entry in model.opset_import if entry.domain in ONNX_DOMAINS] or [1])
        self.types: dict[str, TensorType] = {}
        """Types of values, once they are known."""

    def _constants(self) -> None:
        """Take constants out of nodes, and give each one name."""
        kept, renamed = list[NodeProto](), dict[str, str]()
        # results of the model, and what graphs inside of nodes read, keep their names
        named = {value.name for value in self.model.graph.output}
        named |= {name for node in self.nodes for name in reads(node)[len(node.input) :]}
        for node in self.nodes:
            held = [a for a in node.attribute if a.name == "value"]
            if node.op_type == "Constant" and len(node.attribute) == 1 and held:
                tensor = TensorProto()
                tensor.CopyFrom(held[0].t)
                tensor.name = node.output[0]
                self.initializers[tensor.name] = tensor
                continue
            own = NodeProto()
            own.CopyFrom(node)
            own.input[:] = [renamed.get(name, name) for name in own.input]
            if own.op_type == "Identity" and own.input[0] in self.initializers:
                renamed[own.output[0]] = own.input[0]
                if own.output[0] not in named:
                    continue
            kept.append(own)
        self.nodes = kept

    def _live(self) -> list[NodeProto]:
        """The nodes that an output needs, producers first; GraphProblem where they go round."""
        makers = {name: node for node in self.nodes for name in node.output if name}
        ties: dict[int, set[int]] = {}
        waiting = [makers[name] for name in self.outputs if name in makers]
        while waiting:
            node = waiting.pop()
            if id(node) not in ties:
                before = [makers[name] for name in reads(node) if name in makers]
                ties[id(node)] = set(map(id, before))
                waiting += before
        found, done, left = list[NodeProto](), set[int](), [node for node in self.nodes if id(node) in ties]
        while left:
            ready = []
            for node in left:  # files are in order nearly always, so that one round suffices
                if ties[id(node)] <= done:
                    ready.append(node)
                    done.add(id(node))
            if not ready:
                raise GraphProblem("the graph has a cycle", [("one node", label(left[0]))], "an export without it")
            found += ready
            left = [node for node in left if id(node) not in done]
        return found

    def readers(self) -> Mapping[str, list[NodeProto]]:
        """The nodes that read each value."""
        found: dict[str, list[NodeProto]] = defaultdict(list)
        for node in self.nodes:
            for name in dict.fromkeys(reads(node)):
                found[name].append(node)
        return found

    def array(self, name: str) -> Array:
        """A constant's numbers."""
        return to_array(self.initializers[name])

    def number(self, name: str) -> float | None:
        """The one number of a constant; None for a value that is computed."""
        return float(self.array(name).reshape(())) if name in self.initializers else None

    def parameters(self, node: NodeProto) -> Iterator[str]:
        """Float constants of more than one number that a node reads: what it has learned."""
        for name in dict.fromkeys(reads(node)):
            tensor = self.initializers.get(name)
            if tensor is not None and tensor.data_type == TensorProto.FLOAT and int(np.prod(tensor.dims)) > 1:
                yield name

    def is_value(self, name: str) -> bool:
        """Whether a name is that of floats which depend on data."""
        kind = self.types.get(name)
        return bool(name) and name not in self.initializers and kind is not None and kind.dtype == "float32"

    def add(self, base: str, array: Array) -> str:
        """Add a constant under a name that is free; returns it."""
        name = self.names.fresh(base)
        self.initializers[name] = numpy_helper.from_array(np.array(array, order="C"), name)
        return name

    def proto(self) -> ModelProto:
        """The model of these nodes, with the constants that they read."""
        model, graph = ModelProto(), self.model.graph
        model.CopyFrom(self.model)
        used = {name for node in self.nodes for name in reads(node)} | set(self.outputs)
        del model.graph.node[:], model.graph.initializer[:]
        model.graph.node.extend(self.nodes)
        model.graph.initializer.extend(t for t in self.initializers.values() if t.name in used)
        made = {name for node in self.nodes for name in node.output}
        kept = [value for value in graph.input if value.name in used or value.name not in self.initializers]
        del model.graph.input[:], model.graph.value_info[:]
        model.graph.input.extend(kept)
        model.graph.value_info.extend(value for value in graph.value_info if value.name in made)
        return model


def label(node: NodeProto) -> str:
    """A node's name for people."""
    return node.name or f"{node.op_type}_{next((name for name in node.output if name), 'none')}"
