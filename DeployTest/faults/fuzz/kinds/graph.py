"""Inference graphs: edited node by node, and as bytes; what is accepted must mean what ONNX Runtime says."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from deployer import pipeline
from deployer.codegen import generate
from deployer.core.ir import Program
from deployer.frontend import check, parse
from deployer.verify.program import verify_program
from DeployTest.faults.fuzz.building import build_inference
from DeployTest.faults.fuzz.draw import damaged
from DeployTest.faults.fuzz.edits import attributes as attribute_edits
from DeployTest.faults.fuzz.edits import graph as graph_edits
from DeployTest.faults.fuzz.edits import tensors as tensor_edits
from DeployTest.faults.fuzz.models import chain
from DeployTest.faults.fuzz.output_text import check_text, random_options
from DeployTest.faults.fuzz.reference import compare
from DeployTest.faults.fuzz.register import kind
from DeployTest.faults.fuzz.trial import Finding, Trial, contained

__all__ = ["attribute_edits", "graph_edits", "tensor_edits"]
PLANNED = 0.06
"""Share of accepted graphs that are compiled to C as well."""
CANARY = np.float32(-7654321.0)
"""Fills the file that no model may read."""


@kind(30)
def graph(trial: Trial) -> str:
    """A valid model with up to four structural edits."""
    base = chain(trial.draw("model"))
    model = base.model()
    prepare(trial, model)
    if trial.draw("valid").chance(0.95):
        trial.edit("graph", model)
    return judged(trial, model.SerializeToString(), base.feeds)


@kind(12)
def graph_bytes(trial: Trial) -> str:
    """A valid model with its file damaged."""
    base = chain(trial.draw("model"), longest=3)
    model = base.model()
    prepare(trial, model)
    return judged(trial, damage(trial, model.SerializeToString()), base.feeds)


@kind(4)
def standard_graph(trial: Trial) -> str:
    """A valid model of ONNX's operators alone, whole or under another opset."""
    base = chain(trial.draw("model"), longest=8, standard=True)
    model = base.model()
    draw = trial.draw("opset")
    if draw.chance(0.5):
        model.opset_import[0].version = draw.number(7, 24)
    prepare(trial, model)
    return judged(trial, model.SerializeToString(), base.feeds)


def damage(trial: Trial, data: bytes) -> bytes:
    """Up to four places damaged."""
    for _ in range(trial.draw("bytes-count").number(1, 4)):
        number, trial.drawn = trial.drawn, trial.drawn + 1
        if trial.keep is None or number in trial.keep:
            trial.log.append(f"{number}: bytes")
            data = damaged(data, trial.draw(f"edit-{number}"))
    return data


def prepare(trial: Trial, model: onnx.ModelProto) -> None:
    """Files that the model may refer to: its constants in its own folder, and a file outside of it."""
    (trial.secret / "secret.bin").write_bytes(np.full(2048, CANARY).tobytes())
    content = b"".join(t.raw_data for t in model.graph.initializer)
    (trial.case / "weights.bin").write_bytes(content + bytes(4096))
    (trial.case / "link.bin").symlink_to(trial.secret / "secret.bin")


def judged(trial: Trial, data: bytes, feeds: Mapping[str, np.ndarray]) -> str:
    """Read, check, compare; plan some."""
    path = trial.case / "network.onnx"
    path.write_bytes(data)
    with contained(trial):
        program = check.check_program(parse.read_graphs(path, None))
        verify_program(program)
    check_secret(program)
    verdict = compare(trial, program, path, feeds, shown(path))
    if trial.build:
        return build_inference(trial, program, feeds)
    if trial.draw("plan").chance(PLANNED):
        with contained(trial):
            options = random_options(trial.draw("options"))
            _, plan = pipeline.plan_program(program, options)
            check_text(generate.generate_files(plan))
    return verdict


def check_secret(program: Program) -> None:
    """No constant holds what lies outside of the model's folder."""
    for name, tensor in program.tensors.items():
        if tensor.data is not None and tensor.type.dtype == "float32" and (tensor.array == CANARY).any():
            raise Finding("stray access", f"constant {name!r} holds a file from outside of the model's folder")


def _has_nan(tensor: onnx.TensorProto) -> bool:
    try:
        return bool(np.isnan(numpy_helper.to_array(tensor)).any())
    except ValueError:  # damaged, which an accepted model may hold where no node reads it
        return False


def shown(path: Path) -> str:
    """The model's nodes, one per line, with its opsets and element types, and the constants that hold a NaN."""
    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as error:  # what is accepted can be read; a test of the line below would be the reader's own
        raise Finding("crash", f"onnx.load fails on an accepted model: {error}") from error
    lines = [line for node in model.graph.node for line in _node_lines(node)]
    opsets = ", ".join(f"{o.domain or 'ai.onnx'}:{o.version}" for o in model.opset_import)
    kinds = sorted(
        {onnx.TensorProto.DataType.Name(t.data_type) for t in model.graph.initializer if t.data_type in _KNOWN}
    )
    values = [v.type.tensor_type.elem_type for v in (*model.graph.input, *model.graph.output)]
    kinds += sorted({onnx.TensorProto.DataType.Name(v) for v in values if v in _KNOWN})
    lines.append(f"opsets {opsets}; elements {' '.join(kinds)}")
    inside = [t for t in model.graph.initializer if t.data_location == onnx.TensorProto.DEFAULT]
    lines += [f"nan in {t.name}" for t in inside if t.data_type == onnx.TensorProto.FLOAT and _has_nan(t)]
    if model.functions:
        lines.append("functions " + " ".join(f"{f.domain}.{f.name}" for f in model.functions))
        lines += [line for f in model.functions for node in f.node for line in _node_lines(node)]
    return "\n".join(line[:400] for line in lines)


_KNOWN = set(onnx.TensorProto.DataType.values())


def _node_lines(node: onnx.NodeProto) -> list[str]:
    """The node and, behind it, the nodes of its inner graphs."""
    graphs = [graph for attribute in node.attribute for graph in (attribute.g, *attribute.graphs)]
    return [_node_line(node), *(line for graph in graphs for inner in graph.node for line in _node_lines(inner))]


def _node_line(node: onnx.NodeProto) -> str:
    attributes = []
    for a in node.attribute:
        try:
            value = onnx.helper.get_attribute_value(a)
            value = numpy_helper.to_array(value).tolist() if isinstance(value, onnx.TensorProto) else value
        except Exception as error:  # damaged attributes of nodes that nobody reads
            value = type(error).__name__
        attributes.append(f"{a.name}={str(value)[:60]}")
    inputs, outputs = ",".join(node.input), ",".join(node.output)
    domain = f" domain={node.domain}" if node.domain else ""
    return f"{node.op_type or '(empty)'} ({inputs!a}) -> ({outputs!a}) {' '.join(map(ascii, attributes))}{domain}"
