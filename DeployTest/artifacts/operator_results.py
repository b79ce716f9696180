"""Results of ONNX Runtime's training operators on small inputs, which test_runtime_results.py compares with ours.

`make runtime-operators` runs this in the environment of generate.py. Inputs are drawn from a seed; the file holds them,
the attributes and the outputs of each case.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
from onnx import TensorProto, helper

Array = npt.NDArray[np.generic]
DOMAIN = "com.microsoft"
DRAW = np.random.default_rng(5)


@dataclass(frozen=True)
class Case:
    """A node: operator, inputs (None: absent), number of outputs, attributes; outputs in `left` are absent."""

    label: str
    op: str
    inputs: Sequence[Array | None]
    outputs: int
    attrs: dict[str, object] = field(default_factory=dict)
    left: tuple[int, ...] = ()

    def results(self) -> list[Array | None]:
        """The outputs that ONNX Runtime computes."""
        names = [f"x{i}" if x is not None else "" for i, x in enumerate(self.inputs)]
        outs = ["" if i in self.left else f"y{i}" for i in range(self.outputs)]
        values = {name: x for name, x in zip(names, self.inputs, strict=True) if x is not None}
        given = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for n, x in values.items()
        ]
        node = helper.make_node(self.op, names, outs, domain=DOMAIN, **self.attrs)
        graph = helper.make_graph([node], "one", given, [helper.make_empty_tensor_value_info(n) for n in outs if n])
        imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=8)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        found = iter(session.run(None, values))
        return [next(found) if name else None for name in outs]


def normal(*shape: int) -> Array:
    """Standard normal float32 values."""
    return DRAW.standard_normal(shape).astype(np.float32)


def integers(*values: int) -> Array:
    """A list of int64."""
    return np.array(values, np.int64)


def elementwise() -> Iterator[Case]:
    """Gradients of functions, and of a quotient that broadcasts."""
    yield Case("gelu_grad", "GeluGrad", [normal(3, 5), normal(3, 5)], 1)
    yield Case("bias_gelu", "BiasGelu", [normal(3, 5), normal(5)], 1)
    yield Case("bias_gelu_grad", "BiasGeluGrad_dX", [normal(2, 3, 5), normal(2, 3, 5), normal(5)], 1)
    yield Case("fast_gelu", "FastGelu", [normal(3, 5), normal(5)], 1)
    yield Case("fast_gelu_grad", "FastGeluGrad", [normal(3, 5), normal(3, 5)], 1)
    yield Case("bias_fast_gelu_grad", "BiasFastGeluGrad_dX", [normal(3, 5), normal(3, 5), normal(5)], 1)
    yield Case("quick_gelu", "QuickGelu", [normal(3, 5)], 1, {"alpha": 1.702})
    yield Case("quick_gelu_grad", "QuickGeluGrad", [normal(3, 5), normal(3, 5)], 1, {"alpha": 1.702})
    yield Case("quick_gelu_grad_one", "QuickGeluGrad", [normal(3, 5), normal(3, 5)], 1, {"alpha": 1.0})
    for label, a, b in (("equal", (3, 4), (3, 4)), ("divisor", (2, 3, 4), (3, 1)), ("dividend", (4,), (2, 3, 4))):
        divisor = (DRAW.uniform(0.5, 2, b) * DRAW.choice([-1, 1], b)).astype(np.float32)
        yield Case(f"div_grad_{label}", "DivGrad", [normal(*np.broadcast_shapes(a, b)), normal(*a), divisor], 2)


def products() -> Iterator[Case]:
    """FusedMatMul with operands in each order."""
    for label, a, b, attrs in (
        ("alpha", (3, 4), (4, 2), {"alpha": 0.5}),
        ("trans_a", (2, 4, 3), (2, 4, 5), {"transA": 1}),
        ("trans_b", (2, 3, 4), (5, 4), {"transB": 1}),
        ("batch_a", (3, 2, 4), (2, 4, 5), {"transBatchA": 1}),
        ("batch_a_trans", (4, 2, 3), (2, 4, 5), {"transBatchA": 1, "transA": 1}),
        ("batch_b", (2, 3, 4), (4, 2, 5), {"transBatchB": 1}),
        ("batch_b_trans", (2, 3, 4), (5, 2, 4), {"transBatchB": 1, "transB": 1, "alpha": 2.0}),
        ("batches", (3, 2, 5, 4), (2, 5, 4, 6), {"transBatchA": 1}),
    ):
        yield Case(f"fused_matmul_{label}", "FusedMatMul", [normal(*a), normal(*b)], 1, attrs)


def moves() -> Iterator[Case]:
    """Parts of tensors and rows of tables."""
    yield Case("concat", "ConcatTraining", [normal(2, 3), normal(2, 1), normal(2, 2)], 2, {"axis": 1})
    yield Case("split", "SplitTraining", [normal(2, 6), integers(3, 1, 2)], 3, {"axis": 1})
    for label, dy, shape, bounds in (
        ("padded", (3, 5), (6, 5), ((-4,), (-1,), (0,), (1,))),
        ("stepped", (2, 3), (5, 7), ((1, 0), (99, 6), (0, 1), (2, 2))),
    ):
        lists = [integers(*values) for values in (shape, *bounds)]
        yield Case(f"slice_grad_{label}", "SliceGrad", [normal(*dy), *lists], 1)
    rows = np.array([[0, 2], [2, -1]], np.int64)
    yield Case("gather_grad", "GatherGrad", [integers(4, 3), rows, normal(2, 2, 3)], 1, {"axis": 0})
    yield Case("gather_grad_last", "GatherGrad", [integers(2, 4), integers(3, 0, 3), normal(2, 3)], 1, {"axis": 1})


def norms() -> Iterator[Case]:
    """Gradients of softmax and of norms, and running statistics."""
    for axis in (-1, 1):
        x = normal(2, 3, 4)
        powers = np.exp(x)
        y = (powers / powers.sum(axis, keepdims=True)).astype(np.float32)
        yield Case(f"softmax_grad_{axis}", "SoftmaxGrad_13", [normal(2, 3, 4), y], 1, {"axis": axis})
        yield Case(f"log_softmax_grad_{axis}", "LogSoftmaxGrad_13", [normal(2, 3, 4), np.log(y)], 1, {"axis": axis})
    x, scale = normal(3, 5), normal(5)
    inv_std = (1 / np.sqrt((x * x).mean(-1, keepdims=True) + 0.01)).astype(np.float32)
    attrs = {"axis": -1, "epsilon": 0.01}
    yield Case("rms_grad", "SimplifiedLayerNormalizationGrad", [normal(3, 5), x, scale, inv_std], 2, {"axis": -1})
    mean = x.mean(-1, keepdims=True, dtype=np.float32)
    deviation = (1 / np.sqrt(x.var(-1, keepdims=True) + 0.01)).astype(np.float32)
    yield Case("layer_norm_grad", "LayerNormalizationGrad", [normal(3, 5), x, scale, mean, deviation], 3, {"axis": -1})
    yield Case(
        "skip_norm", "SkipLayerNormalization", [x, normal(3, 5), scale, normal(5), normal(5)], 1, {"epsilon": 0.01}
    )
    for label, shape in (("image", (3, 2, 4, 2)), ("rows", (4, 2)), ("one", (1, 2))):
        values = [normal(*shape), normal(2), normal(2), normal(2), np.abs(normal(2))]
        attrs = {"momentum": 0.25, "epsilon": 0.01, "training_mode": 1}
        yield Case(f"batch_norm_{label}", "BatchNormInternal", values, 5, attrs)


def recurrent() -> Iterator[Case]:
    """Layers, and their gradients from what ONNX Runtime saved of them."""
    time, batch, features, units = 4, 3, 2, 3
    state = (1, batch, units)

    def layer(gates: int) -> list[Array]:
        width = gates * units
        return [
            normal(time, batch, features),
            normal(1, width, features),
            normal(1, width, units),
            normal(1, 2 * width),
        ]

    for label, stated in (("", True), ("_unstated", False)):
        x, w, r, b = layer(4)
        h, c = (normal(*state), normal(*state)) if stated else (None, None)
        attrs = {"hidden_size": units}
        forward = Case(f"lstm{label}", "LSTMTraining", [x, w, r, b, None, h, c], 5, attrs)
        yield forward
        y, _, _, cells, gates = forward.results()
        ends = [normal(*state), normal(*state)] if stated else []
        if h is not None and c is not None:
            saved = [x, w, r, None, h, c, y, cells, gates, normal(time, *state), *ends]
            yield Case(f"lstm_grad{label}", "LSTMGrad", saved, 6, attrs)
        for after in (0, 1):
            x, w, r, b = layer(3)
            h = normal(*state)
            attrs = {"hidden_size": units, "linear_before_reset": after}
            forward = Case(f"gru_{after}{label}", "GRUTraining", [x, w, r, b, None, h if stated else None], 3, attrs)
            yield forward
            y, _, gates = forward.results()
            if stated:
                saved = [x, w, r, b, None, h, y, gates, normal(time, *state), normal(*state)]
                yield Case(f"gru_grad_{after}", "GRUGrad", saved, 5, attrs)


def clipped() -> dict[str, Array]:
    """InplaceClipGradNorm over a sequence, whose norm is beyond the limit and within."""
    arrays: dict[str, Array] = {}
    for label, limit in (("beyond", 0.5), ("within", 50.0)):
        tensors = [normal(2, 3), normal(4)]
        names = [f"g{i}" for i in range(len(tensors))]
        nodes = [helper.make_node("SequenceConstruct", names, ["sequence"])]
        nodes.append(helper.make_node("InplaceClipGradNorm", ["sequence"], ["clipped"], domain=DOMAIN, max_norm=limit))
        for i in range(len(tensors)):
            nodes.append(helper.make_node("Constant", [], [f"at{i}"], value_int=i))
            nodes.append(helper.make_node("SequenceAt", ["clipped", f"at{i}"], [f"y{i}"]))
        given = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape) for n, x in zip(names, tensors, strict=True)
        ]
        outs = [helper.make_empty_tensor_value_info(f"y{i}") for i in range(len(tensors))]
        graph = helper.make_graph(nodes, "clip", given, outs)
        imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=8)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        copies = {name: x.copy() for name, x in zip(names, tensors, strict=True)}
        arrays |= {f"clip/{label}/limit": np.array(limit, np.float32)}
        arrays |= {f"clip/{label}/in{i}": x for i, x in enumerate(tensors)}
        arrays |= {f"clip/{label}/out{i}": x for i, x in enumerate(session.run(None, copies))}
    return arrays


def main() -> None:
    """Write the file that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("file", type=Path)
    onnxruntime.set_default_logger_severity(3)
    arrays: dict[str, Array] = {}
    for family in (elementwise, products, moves, norms, recurrent):
        for case in family():
            results = case.results()
            text = json.dumps({"op": case.op, "attrs": case.attrs, "inputs": len(case.inputs), "outputs": case.outputs})
            arrays[f"{case.label}/node"] = np.array(text)
            arrays |= {f"{case.label}/in{i}": x for i, x in enumerate(case.inputs) if x is not None}
            arrays |= {f"{case.label}/out{i}": x for i, x in enumerate(results) if x is not None}
    np.savez_compressed(parser.parse_args().file, **arrays, **clipped())


if __name__ == "__main__":
    main()
