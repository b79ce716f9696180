"""A folder of training artifacts in the forms that ONNX Runtime gives them, and its training in numpy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from DeployTest.support.graphs.small_graphs import BOOL, FLOAT, INT64, Model, constant, node, value

Arrays = dict[str, npt.NDArray[Any]]
BATCH, PASSES, EACH, CLASSES = 4, 6, 2, 3
RATE = 0.125
SIZES = {"fc0.weight": (6, 5), "fc0.bias": (6,), "fc1.weight": (CLASSES, 6), "fc1.bias": (CLASSES,)}
OPSETS = (("", 15), ("ai.onnx.ml", 5), ("com.microsoft", 1), ("com.microsoft.nchwc", 1), ("org.pytorch.aten", 1))
LOSS = "onnx::loss::2"
MICROSOFT = "com.microsoft"
BUFFER = "_grad.accumulation.buffer"


def _accumulation(weight: str) -> onnx.NodeProto:
    names = (f"{weight}{BUFFER}", f"{weight}_grad", "lazy_reset_grad")
    return node("InPlaceAccumulatorV2", names, (f"{weight}_grad.accumulation.out",), domain=MICROSOFT)


def _bias_gradient(label: str, gradient: str) -> tuple[onnx.NodeProto, ...]:
    summed = f"{label}_Grad/dC_reduced"
    attrs = {"keepdims": 0, "noop_with_empty_axes": 0}
    return (
        node("ReduceSum", (gradient, f"{label}_Grad/ReduceAxes"), (summed,), **attrs),
        node("Identity", (summed,), (f"{label}.bias_grad",)),
    )


def _gemm(inputs: Sequence[str], output: str, **attrs: object) -> onnx.NodeProto:
    return node("Gemm", inputs, (output,), **{"alpha": 1.0, "beta": 0.0, "transA": 0, "transB": 0} | attrs)


TRAIN = Model(
    nodes=(
        _gemm(("x", "fc0.weight", "fc0.bias"), "fc0.out", beta=1.0, transB=1),
        node("Relu", ("fc0.out",), ("relu0.out",)),
        _gemm(("relu0.out", "fc1.weight", "fc1.bias"), "fc1.out", beta=1.0, transB=1),
        node("SoftmaxCrossEntropyLoss", ("fc1.out", "labels"), (LOSS, "onnx::log_prob::3"), reduction="mean"),
        node(
            "SoftmaxCrossEntropyLossGrad",
            (f"{LOSS}_grad", "onnx::log_prob::3", "labels"),
            ("fc1.out_grad",),
            domain=MICROSOFT,
            reduction="mean",
        ),
        *_bias_gradient("fc1", "fc1.out_grad"),
        _gemm(("fc1.out_grad", "relu0.out"), "fc1.weight_grad", transA=1),
        _gemm(("fc1.out_grad", "fc1.weight"), "relu0.out_grad"),
        node("ReluGrad", ("relu0.out_grad", "relu0.out"), ("fc0.out_grad",), domain=MICROSOFT),
        *_bias_gradient("fc0", "fc0.out_grad"),
        _gemm(("fc0.out_grad", "x"), "fc0.weight_grad", transA=1),
        *map(_accumulation, SIZES),
    ),
    inputs=(
        value("x", (BATCH, 5)),
        value("labels", (BATCH,), INT64),
        *(value(name, shape) for name, shape in SIZES.items()),
        *(value(f"{name}{BUFFER}", shape) for name, shape in SIZES.items()),
        value("lazy_reset_grad", (1,), BOOL),
    ),
    outputs=(value(LOSS, ()), *(value(f"{name}_grad.accumulation.out", (1,), BOOL) for name in SIZES)),
    initializers=(
        constant(f"{LOSS}_grad", np.float32(1)),
        *(constant(f"{label}_Grad/ReduceAxes", np.array([0], np.int64)) for label in ("fc0", "fc1")),
    ),
    opsets=OPSETS,
)


def sequence(name: str) -> onnx.ValueInfoProto:
    """A declared sequence of float tensors."""
    return helper.make_tensor_sequence_value_info(name, FLOAT, None)


STATES = ("first_order_moments", "second_order_moments")
ADAMW = {"adam_mode": 1, "alpha": 0.9, "beta": 0.999, "correct_bias": 1, "epsilon": 1e-6, "weight_decay": 0.0}
_NUMBERS = (value("learning_rate", (1,)), value("step", (1,), INT64), sequence("params"), sequence("gradients"))
SGD = Model(
    nodes=(node("SGDOptimizerV2", ("learning_rate", "params", "gradients"), ("update_completed",), domain=MICROSOFT),),
    inputs=(*_NUMBERS, sequence(STATES[0])),
    outputs=(value("update_completed", (1,), BOOL),),
    opsets=((MICROSOFT, 1), ("", 15)),
)


def adamw(**attrs: object) -> Model:
    """The optimizer graph of AdamW, with ONNX Runtime's attributes unless others are given."""
    names = ("learning_rate", "step", "params", "gradients", *STATES)
    made = node("AdamWOptimizer", names, ("adamw.updated_flag",), domain=MICROSOFT, **ADAMW | attrs)
    inputs, outputs = (*_NUMBERS, *map(sequence, STATES)), (value("adamw.updated_flag", (1,), BOOL),)
    return replace(SGD, nodes=(made,), inputs=inputs, outputs=outputs)


def checkpoint(trained: Mapping[str, npt.NDArray[Any]], frozen: Mapping[str, npt.NDArray[Any]] | None = None) -> bytes:
    """The bytes of a checkpoint file, by the flatbuffers library."""
    builder = flatbuffers.Builder(1024)

    def tensor(name: str, array: npt.NDArray[Any]) -> int:
        text, raw = builder.CreateString(name), builder.CreateByteVector(array.tobytes())
        builder.StartVector(8, array.ndim, 8)
        for size in reversed(array.shape):
            builder.PrependInt64(size)
        dims = builder.EndVector()
        builder.StartObject(7)
        builder.PrependUOffsetTRelativeSlot(0, text, 0)
        builder.PrependUOffsetTRelativeSlot(2, dims, 0)
        builder.PrependInt32Slot(3, helper.np_dtype_to_tensor_dtype(array.dtype), 0)
        builder.PrependUOffsetTRelativeSlot(4, raw, 0)
        return int(builder.EndObject())

    def tensors(arrays: Mapping[str, npt.NDArray[Any]]) -> int:
        made = [tensor(name, array) for name, array in arrays.items()]
        builder.StartVector(4, len(made), 4)
        for offset in reversed(made):
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())

    parts = [tensors(trained), tensors(frozen or {})]
    builder.StartObject(4)
    for slot, part in enumerate(parts):
        builder.PrependUOffsetTRelativeSlot(slot, part, 0)
    module = builder.EndObject()
    builder.StartObject(4)
    builder.PrependInt32Slot(0, 2, 0)
    builder.PrependUOffsetTRelativeSlot(1, module, 0)
    builder.Finish(builder.EndObject(), b"ODTC")
    return bytes(builder.Output())


def initial() -> Arrays:
    """Parameters from a fixed seed."""
    draw = np.random.default_rng(1)
    return {name: draw.uniform(-0.5, 0.5, shape).astype(np.float32) for name, shape in SIZES.items()}


def samples() -> Arrays:
    """The content of data.npz from a fixed seed."""
    draw = np.random.default_rng(2)
    x = draw.standard_normal((PASSES, BATCH, 5)).astype(np.float32)
    return {"x": x, "labels": draw.integers(0, CLASSES, (PASSES, BATCH))}


@dataclass(frozen=True)
class Artifacts:
    """The files of a case; those that hold parameters are given as bytes by name, data and results as arrays."""

    train: Model = TRAIN
    optimizer: Model = SGD
    parameters: Mapping[str, bytes] = field(default_factory=lambda: {"checkpoint": checkpoint(initial())})
    data: Mapping[str, object] = field(default_factory=samples)
    expected: Mapping[str, object] | None = None

    def write(self, folder: Path) -> Path:
        """Write them all; returns the folder."""
        self.train.save(folder / "training_model.onnx")
        self.optimizer.save(folder / "optimizer_model.onnx")
        for name, content in self.parameters.items():
            (folder / name).write_bytes(content)
        np.savez(folder / "data.npz", **self.data)  # type: ignore[arg-type]
        if self.expected is not None:
            np.savez(folder / "expected.npz", **self.expected)  # type: ignore[arg-type]
        return folder


def forward_model(arrays: Mapping[str, npt.NDArray[Any]], folder: Path) -> bytes:
    """A forward model with these initializers."""
    inputs, outputs = (value("x", (BATCH, 5)),), (value("fc1.out", (BATCH, CLASSES)),)
    tensors = tuple(constant(name, array) for name, array in arrays.items())
    return Model(TRAIN.nodes[:3], inputs, outputs, tensors).save(folder / "model").read_bytes()


def trained(attrs: Mapping[str, Any] | None = None) -> tuple[list[float], Arrays]:
    """Losses, final parameters and, with attributes of AdamW, moments of `samples` from `initial`, in float64."""
    w = {name: array.astype(np.float64) for name, array in initial().items()}
    total = {name: np.zeros_like(array) for name, array in w.items()}
    first, second = ({name: np.zeros_like(array) for name, array in w.items()} for _ in range(2))
    losses, count = [], 0
    for index in range(PASSES):
        loss, gradients = _gradients(w, *(array[index] for array in samples().values()))
        losses.append(loss)
        total = {name: total[name] + gradients[name] for name in w}
        if index % EACH < EACH - 1:
            continue
        count += 1
        for name, g in total.items():
            if attrs is None:
                w[name] = w[name] - RATE * g
                continue
            first[name] = attrs["alpha"] * first[name] + (1 - attrs["alpha"]) * g
            second[name] = attrs["beta"] * second[name] + (1 - attrs["beta"]) * g**2
            w[name] = _stepped(w[name], first[name], second[name], count, attrs)
        total = {name: np.zeros_like(array) for name, array in w.items()}
    states = {f"{n}_first_moment": a for n, a in first.items()} | {f"{n}_second_moment": a for n, a in second.items()}
    return losses, w | (states | {"step": np.array([count])} if attrs else {})


def _gradients(w: Arrays, x: npt.NDArray[Any], labels: npt.NDArray[Any]) -> tuple[float, Arrays]:
    h = np.maximum(x @ w["fc0.weight"].T + w["fc0.bias"], 0)
    y = h @ w["fc1.weight"].T + w["fc1.bias"]
    share = np.exp(y) / np.exp(y).sum(1, keepdims=True)
    loss = float(-np.log(share[np.arange(BATCH), labels]).mean())
    dy = (share - np.eye(CLASSES)[labels]) / BATCH
    dh = dy @ w["fc1.weight"] * (h > 0)
    return loss, {"fc0.weight": dh.T @ x, "fc0.bias": dh.sum(0), "fc1.weight": dy.T @ h, "fc1.bias": dy.sum(0)}


def _stepped(
    w: npt.NDArray[Any], m: npt.NDArray[Any], v: npt.NDArray[Any], count: int, attrs: Mapping[str, Any]
) -> npt.NDArray[Any]:
    """AdamW as PyTorch's page (mode 0) and Hugging Face's (mode 1) have it."""
    corrected = 1 - attrs["alpha"] ** count, 1 - attrs["beta"] ** count
    decayed = RATE * attrs["weight_decay"]
    if attrs["adam_mode"] == 0:
        w = w - decayed * w
        return w - RATE * (m / corrected[0]) / (np.sqrt(v / corrected[1]) + attrs["epsilon"])
    size = RATE * np.sqrt(corrected[1]) / corrected[0] if attrs["correct_bias"] else RATE
    w = w - size * m / (np.sqrt(v) + attrs["epsilon"])
    return w - decayed * w
