"""PyTorch, which computes the same in float32, where it is installed."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from deployer.core.operator import Array

Formula = Callable[[Any, list[Any]], Any]
"""A forward computation in PyTorch: the module, the inputs as tensors -> the output."""


def torch_module() -> Any:
    """PyTorch on one thread, or None where it is not installed."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return None
    torch.set_num_threads(1)
    return torch


def run_by_torch(
    torch: Any, formula: Formula, inputs: Sequence[Array], dout: Array | None, wanted: Sequence[int]
) -> tuple[Array, Mapping[int, Array]]:
    """The output of a formula, and the gradients of the wanted inputs for the output's gradient `dout`, by autograd."""
    tensors = [torch.from_numpy(np.array(x, np.int64 if x.dtype.kind in "iu" else x.dtype)) for x in inputs]
    for index in wanted:
        tensors[index].requires_grad_()
    output = formula(torch, tensors)
    upstream = None if dout is None else torch.from_numpy(np.array(dout))
    found = torch.autograd.grad(output, [tensors[i] for i in wanted], upstream) if wanted else ()
    gradients = {i: gradient.numpy() for i, gradient in zip(wanted, found, strict=True)}
    return output.detach().numpy(), gradients
