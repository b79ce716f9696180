"""From a PyTorch module to trained weights; PyTorch is an optional extra of the deployer.

`train` trains a module by generated code, `load_into` gives its weights to another one. The `package` of its result
writes a library of C for a board, `package` that of a module as it is. `compile_step` makes a step for a loop of your
own.
`capture_step` gives a module's training step as an ONNX model, `capture` its forward pass.
"""

from deployer.fitting.callback import Callback
from deployer.fitting.fit import Fitted
from deployer.fitting.runs.run_callbacks import EarlyStopping, ModelCheckpoint
from deployer.torch.boards.module_library import package
from deployer.torch.capture import Captured, capture
from deployer.torch.own_loop.compile_step import compile_step
from deployer.torch.own_loop.compiled import CompiledStep
from deployer.torch.step import CapturedStep, capture_step
from deployer.torch.trained import Trained
from deployer.torch.training import train
from deployer.torch.weights import load_into

fit = train
"""The name of `train` in other libraries."""

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
    "fit",
    "load_into",
    "package",
    "train",
]
