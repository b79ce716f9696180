"""From a PyTorch module to trained weights; PyTorch is an optional extra of the deployer.

`train` trains a module by generated code, `load_into` puts the weights back. The `package` of its result writes a
library of C for a board, `package` that of a module as it is. `compile_step` makes a step for a loop of your own.
`capture_step` gives a module's training step as an ONNX model, `capture` its forward pass.
"""

from deployer.fitting.fit import Fitted
from deployer.torch.capture import Captured, capture
from deployer.torch.own_loop.compile_step import compile_step
from deployer.torch.own_loop.compiled import CompiledStep
from deployer.torch.packaging import Trained, package
from deployer.torch.step import CapturedStep, capture_step
from deployer.torch.training import load_into, train

__all__ = [
    "Captured",
    "CapturedStep",
    "CompiledStep",
    "Fitted",
    "Trained",
    "capture",
    "capture_step",
    "compile_step",
    "load_into",
    "package",
    "train",
]
