"""Small ONNX graphs for tests: a one-layer training case that each test bends in one place."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from deployer.core.errors import DeployerError
from deployer.core.ir import Program
from deployer.frontend import check, parse
from deployer.frontend.dataset import load
from deployer.verify.reference import run_training

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
DATA = Path(__file__).resolve().parents[4] / "shared" / "data"

Value = onnx.ValueInfoProto
Nodes = Sequence[onnx.NodeProto]


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], name: str = "", **attrs: object) -> onnx.NodeProto:
    """A node; its name is its op and first output unless given."""
    return helper.make_node(op, inputs, outputs, name or f"{op}_{outputs[0]}", **attrs)


def value(name: str, shape: Sequence[int | str] | None, element: int = FLOAT) -> Value:
    """A declared tensor."""
    return helper.make_tensor_value_info(name, element, shape)


def constant(name: str, array: object) -> TensorProto:
    """An initializer."""
    return numpy_helper.from_array(np.asarray(array), name)


@dataclass(frozen=True)
class Model:
    """The parts of an ONNX file, kept apart so that a test can replace one."""

    nodes: Nodes
    inputs: Sequence[Value]
    outputs: Sequence[Value]
    initializers: Sequence[TensorProto] = ()
    infos: Sequence[Value] = ()
    opsets: Sequence[tuple[str, int]] = (("", 17),)

    def save(self, path: Path) -> Path:
        """Write the file, with its folder."""
        graph = helper.make_graph(self.nodes, "g", self.inputs, self.outputs, self.initializers, value_info=self.infos)
        opsets = [helper.make_opsetid(domain, version) for domain, version in self.opsets]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())
        return path


BUFFER = "w_grad.accumulation.buffer"
TRAIN = Model(
    nodes=(
        node("Gemm", ("x", "w"), ("y",), "fc", transB=1),
        node("MSELoss", ("y", "t"), ("loss",)),
        node("MSELossGrad", ("y", "t"), ("y_grad",), domain="com.microsoft"),
        node("Gemm", ("y_grad", "x"), ("w_grad",), transA=1),
        node("InPlaceAccumulatorV2", (BUFFER, "w_grad", "lazy_reset_grad"), ("w_out",), domain="com.microsoft"),
    ),
    inputs=(
        value("x", (2, 3)),
        value("t", (2, 4)),
        value("w", (4, 3)),
        value(BUFFER, (4, 3)),
        value("lazy_reset_grad", (1,), BOOL),
    ),
    outputs=(value("loss", ()), value("w_out", (1,), BOOL)),
)
OPTIMIZER = Model(
    nodes=(node("SGD", ("w", BUFFER), ("w_updated",), "step", lr=0.25),),
    inputs=(value("w", (4, 3)), value(BUFFER, (4, 3))),
    outputs=(value("w_updated", (4, 3)),),
)


@dataclass(frozen=True)
class Case:
    """A training case: two models, and the arrays of inputs.npz beside meta data (gold is computed)."""

    train: Model = TRAIN
    optimizer: Model = OPTIMIZER
    drop: tuple[str, ...] = ()
    arrays: dict[str, object] = field(default_factory=dict)
    gold: dict[str, object] = field(default_factory=dict)

    def program(self, folder: Path, **options: object) -> Program:
        """Write both graphs, parse and check them."""
        train = self.train.save(folder / "m_train" / "network.onnx")
        optimizer = self.optimizer.save(folder / "m_optimizer" / "network.onnx")
        return check.check_program(parse.read_graphs(train, optimizer), **options)  # type: ignore[arg-type]

    def dataset(self, folder: Path) -> Path:
        """Write inputs.npz (2 samples, 4 passes, 2 per update) and outputs.npz; returns their folder."""
        folder = folder / "m_train"
        folder.mkdir(parents=True, exist_ok=True)
        r = np.random.default_rng(0)
        arrays: dict[str, object] = {}
        for prefix in ("", "mb1_"):
            arrays[f"{prefix}arr_0000"] = r.standard_normal((2, 3)).astype(np.float32)
            arrays[f"{prefix}arr_0001"] = r.standard_normal((2, 4)).astype(np.float32)
        arrays["arr_0002"] = r.standard_normal((4, 3)).astype(np.float32)
        arrays["arr_0003"] = np.array([True])
        metas = {"meta_data_size": 2, "meta_n_batches": 4, "meta_n_accum": 2}
        arrays |= {key: np.array([number], np.int32) for key, number in metas.items()} | self.arrays
        gold = {"loss": np.zeros(4, np.float32), "w": np.zeros((4, 3), np.float32)} | self.gold
        np.savez(folder / "inputs.npz", **_without(arrays, self.drop))  # type: ignore[arg-type]
        np.savez(folder / "outputs.npz", **_without(gold, self.drop))  # type: ignore[arg-type]
        return folder


def _without(arrays: dict[str, object], names: Sequence[str]) -> dict[str, object]:
    return {key: array for key, array in arrays.items() if key not in names}


def with_nodes(model: Model, *nodes: onnx.NodeProto, **parts: object) -> Model:
    """The model with further nodes at its end, and other parts replaced."""
    return replace(model, nodes=(*model.nodes, *nodes), **parts)  # type: ignore[arg-type]


def infer(folder: Path, model: Model) -> Program:
    """Parse and check an inference graph."""
    return check.check_program(parse.read_graphs(model.save(folder / "network.onnx"), None))


def losses_and_weights(program: Program, folder: Path) -> tuple[list[float], dict[str, np.ndarray]]:
    """Interpret a case in float32."""
    return run_training(program, load(folder, program))


def raises(kind: type[DeployerError], *texts: str) -> pytest.RaisesExc:
    """The error with all these texts in what the user sees."""
    return pytest.RaisesExc(kind, check=lambda error: all(text in str(error) for text in texts))


def ops(program: Program, graph: int = 0) -> list[str]:
    """The op of every node of a graph."""
    return [n.op for n in program.graphs[graph].nodes]


def opset_for(nodes: Nodes) -> int:
    """A version of the default domain in which all these nodes have the form they are in; 17 where it is one."""
    return next(version for version in (17, *range(21, 5, -1)) if all(_fits(n, version) for n in nodes))


def _fits(proto: onnx.NodeProto, version: int) -> bool:
    if not onnx.defs.has(proto.op_type):
        return True
    schema = onnx.defs.get_schema(proto.op_type, version)
    supported = {attribute.name for attribute in proto.attribute} <= set(schema.attributes)
    return supported and schema.min_input <= len(proto.input) <= schema.max_input


def chain(
    *nodes: onnx.NodeProto, out: tuple[int, ...] | None = None, x: tuple[int, ...] = (2, 3), **parts: object
) -> Model:
    """An inference graph from `x` to `y`."""
    return Model(nodes, (value("x", x),), (value("y", out),), **parts)  # type: ignore[arg-type]
