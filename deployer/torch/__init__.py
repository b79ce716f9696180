"""From a PyTorch module to trained weights; PyTorch is an optional extra of the deployer.

`train` trains a module by generated code, `load_into` puts the weights back; `capture` gives the module's forward pass
as an ONNX model.
"""

from deployer.fitting.fit import Fitted
from deployer.torch.capture import Captured, capture
from deployer.torch.training import load_into, train

__all__ = ["Captured", "Fitted", "capture", "load_into", "train"]
