"""From a PyTorch module to trained weights; PyTorch is an optional extra of the deployer.

`train` trains a module by generated code, `load_into` gives its weights to another one. The `package` of its result
writes a library of C for a board, `package` that of a module as it is. `compile_step` makes a step for a loop of your
own, `evaluate` measures a module.
`quantize` writes a module with a frozen part of 8 bits as an ONNX model.
`capture_step` gives a module's training step as an ONNX model, `capture` its forward pass.
"""

from typing import Any

from deployer.fitting.callback import Callback
from deployer.fitting.fit import Fitted
from deployer.fitting.runs.run_callbacks import EarlyStopping, ModelCheckpoint
from deployer.torch.boards.module_library import package
from deployer.torch.boards.quantized import quantize
from deployer.torch.capture import Captured, capture
from deployer.torch.own_loop.compile_step import compile_step
from deployer.torch.own_loop.compiled import CompiledStep
from deployer.torch.own_loop.module_metrics import evaluate
from deployer.torch.step import CapturedStep, capture_step
from deployer.torch.trained import Trained
from deployer.torch.training import train
from deployer.torch.weights import load_into

fit = train
"""The name of `train` in other libraries."""
ELSEWHERE = {
    "compile": "compile_step(module, loss, optimizer), or package(module, x, folder) for a library that only predicts",
    "export": "package(module, x, folder), or capture(module, x).save(path) for ONNX",
    "convert": "package(module, x, folder)",
    "save": "run.save(path), or run.package(folder) for a library of C",
    "load": "load_into(module, run), or module.load_state_dict(torch.load(path))",
    "predict": "run.predict(x), or step.predict(x)",
    "Trainer": "train(module, data, loss, optimizer, epochs=...)",
}
"""Names in other libraries, and their equivalents here."""

__all__ = [
    "Callback",
    "Captured",
    "CapturedStep",
    "CompiledStep",
    "EarlyStopping",
    "Fitted",
    "ModelCheckpoint",
    "Trained",
    "capture",
    "capture_step",
    "compile_step",
    "evaluate",
    "fit",
    "load_into",
    "package",
    "quantize",
    "train",
]


def __getattr__(name: str) -> Any:
    """AttributeError for what other libraries have, with what does the same here."""
    hint = f"; try {ELSEWHERE[name]}" if name in ELSEWHERE else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
