"""Samples of PyTorch's own test suites as modules with a loss: `op_db` has operators, `module_db` modules.

The loss is the sum of all outputs, each times a fixed factor, so that it is right where all outputs are.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.utils import _pytree as pytree

FACTOR = "factor"
"""Prefix of the names of data that outputs are multiplied with."""


@dataclass(eq=False)
class Sample:
    """A module, its loss over `data`, and which of the data are integers that the module could hold itself."""

    module: nn.Module
    loss: Callable[..., Tensor]
    data: dict[str, Tensor] = field(default_factory=dict)


class Called(nn.Module):
    """A function of tensors: the floats are parameters; integers and truths come as data, or are buffers if `held`."""

    def __init__(self, function: Callable[..., Any], arguments: Any, held: bool) -> None:
        super().__init__()
        self.function = function
        leaves, self.spec = pytree.tree_flatten(arguments)
        self.places: list[tuple[str, Any]] = []
        self.fed: dict[str, Tensor] = {}
        for number, leaf in enumerate(leaves):
            self.places.append(self._place(f"x{number}", leaf, held))

    def _place(self, name: str, leaf: Any, held: bool) -> tuple[str, Any]:
        if not isinstance(leaf, Tensor):
            return "given", leaf
        value = leaf.detach().clone()
        if value.is_floating_point() and leaf.requires_grad:
            self.register_parameter(name, nn.Parameter(value))
        elif value.is_floating_point() or held:
            self.register_buffer(name, value)
        else:
            self.fed[name] = value
            return "fed", name
        return "own", name

    def forward(self, *fed: Tensor) -> Any:
        """The function of what the module has, and of what it is fed."""
        rest = dict(zip(self.fed, fed, strict=True))
        found = {"given": lambda x: x, "own": lambda name: getattr(self, name), "fed": rest.__getitem__}
        leaves = [found[kind](x) for kind, x in self.places]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.function(*args, **kwargs)


def _is_output(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point() and not x.is_sparse and x.requires_grad


def outputs_of(result: Any) -> list[Tensor]:
    """The floats of a result that have a gradient."""
    return [x for x in pytree.tree_leaves(result) if _is_output(x)]


def with_loss(module: nn.Module, fed: Mapping[str, Tensor], outputs: list[Tensor]) -> Sample:
    """The module with the loss of outputs of these shapes."""
    generator = torch.Generator().manual_seed(len(outputs))
    drawn = {f"{FACTOR}{i}": torch.randn(x.shape, generator=generator) for i, x in enumerate(outputs)}
    count = len(fed)

    def loss(model: nn.Module, *data: Tensor) -> Tensor:
        found = outputs_of(model(*data[:count]))
        terms = [(x * f).sum() for x, f in zip(found, data[count:], strict=True)]
        return torch.stack(terms).sum() if len(terms) > 1 else terms[0]

    return Sample(module, loss, {**fed, **drawn})


def _is_empty(leaves: Any) -> bool:
    return any(isinstance(x, Tensor) and x.numel() == 0 for x in pytree.tree_leaves(leaves))


def operators() -> dict[str, Any]:
    """The entries of `op_db` that have gradients in float32."""
    found = [op for op in op_db if op.supports_autograd and torch.float32 in op.supported_backward_dtypes("cpu")]
    return {f"{op.name}.{op.variant_test_name}".rstrip("."): op for op in found}


def samples_of(op: Any) -> Iterator[Callable[[bool], Sample | None]]:
    """Makers of an operator's samples, with integers held or fed; a maker gives None for an empty sample."""
    function = op.get_op()
    torch.manual_seed(0)
    for given in op.sample_inputs("cpu", torch.float32, requires_grad=True):

        def make(held: bool, given: Any = given) -> Sample | None:
            def called(*args: Any, **kwargs: Any) -> Any:
                return given.output_process_fn_grad(function(*args, **kwargs))

            module = Called(called, ((given.input, *given.args), given.kwargs), held)
            if _is_empty((given.input, given.args, given.kwargs)) or not list(module.parameters()):
                return None
            with torch.random.fork_rng(devices=[]):
                outputs = outputs_of(module(*module.fed.values()))
            return with_loss(module, module.fed, outputs) if outputs and not _is_empty(outputs) else None

        yield make


def modules() -> dict[str, Any]:
    """The entries of `module_db`."""
    return {info.formatted_name: info for info in module_db if torch.float32 in info.dtypes}


def samples_of_module(info: Any) -> Iterator[Callable[[bool], Sample | None]]:
    """Makers of a module's samples, in training mode and, where it differs, in evaluation."""
    for training in (True, False) if info.train_and_eval_differ else (True,):
        torch.manual_seed(0)
        inputs = info.module_inputs_func(info, "cpu", torch.float32, requires_grad=True, training=training)
        for given in inputs:

            def make(held: bool, given: Any = given, training: bool = training) -> Sample | None:
                if given.forward_input is None:
                    return None
                made, called = given.constructor_input, given.forward_input
                torch.manual_seed(1)
                inner = info.module_cls(*made.args, **made.kwargs).to(torch.float32)
                module = Called(inner, (called.args, called.kwargs), held)
                module.train(training)
                if _is_empty((called.args, called.kwargs)) or not list(module.parameters()):
                    return None
                state = {n: x.clone() for n, x in module.state_dict().items()}
                with torch.random.fork_rng(devices=[]):
                    outputs = outputs_of(module(*module.fed.values()))
                module.load_state_dict(state)
                return with_loss(module, module.fed, outputs) if outputs and not _is_empty(outputs) else None

            yield make
