"""From a PyTorch module to trained weights; PyTorch is an optional extra of the deployer.

`capture` lowers a module's forward pass, `train` trains it by the generated code, `load_into` puts the weights back.
"""

from deployer.torch.capture import Captured, capture

__all__ = ["Captured", "capture"]
