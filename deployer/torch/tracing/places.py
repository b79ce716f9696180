"""The submodule that each operator of a traced graph comes from, also where autograd added it."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import traceback as fx_traceback
from torch.utils import _pytree as pytree

STACK = "nn_module_stack"
"""The metadata of traced nodes that PyTorch hands on: here the innermost submodule alone."""


@contextlib.contextmanager
def tracked(module: nn.Module) -> Iterator["Places"]:
    """Note for each node that is traced meanwhile which submodule of `module` it belongs to."""
    places = Places({id(m): name for name, m in module.named_modules()})
    # Hooks of all modules at once leave the user's own hooks, and their order, alone.
    handles = [
        nn.modules.module.register_module_forward_pre_hook(places.enter),
        nn.modules.module.register_module_forward_hook(places.leave, always_call=True),
    ]
    with fx_traceback.preserve_node_meta():
        before = dict(fx_traceback.current_meta)
        try:
            yield places
        finally:
            fx_traceback.current_meta.clear()
            fx_traceback.current_meta.update(before)
            for handle in handles:
                handle.remove()


class Places:
    """The stack of submodules that run, and which of them made each node of autograd's graph."""

    def __init__(self, names: dict[int, str]) -> None:
        self.names, self.stack = names, [""]
        self.made: dict[Any, str] = {}

    def enter(self, module: nn.Module, inputs: Any) -> None:
        """A submodule begins."""
        self.stack.append(self.names.get(id(module), self.stack[-1]))
        self._note(self.stack[-1])

    def leave(self, module: nn.Module, inputs: Any, output: Any) -> None:
        """A submodule ends: what autograd's graph has more is its own."""
        self.claim(output, self.stack.pop())
        self._note(self.stack[-1])

    def claim(self, output: Any, place: str) -> None:
        """Give all nodes behind an output that belong to nobody yet to a place."""
        waiting = [x.grad_fn for x in pytree.tree_leaves(output) if isinstance(x, Tensor) and x.grad_fn is not None]
        while waiting:
            node = waiting.pop()
            if node not in self.made:
                self.made[node] = place
                waiting += [source for source, _ in node.next_functions if source is not None]

    def follow(self, loss: Tensor) -> None:
        """Note the places of nodes while autograd runs backward from a loss."""
        self.claim(loss, "")
        for node, place in self.made.items():
            node.register_prehook(self._noting(place))

    def _noting(self, place: str) -> Any:
        def note(grads: Any) -> None:
            self._note(place)

        return note

    @staticmethod
    def _note(place: str) -> None:
        fx_traceback.current_meta[STACK] = {place: (place, None)}


def place_of(node: torch.fx.Node) -> str:
    """The name of the submodule that a traced node belongs to."""
    return str(next(iter(node.meta.get(STACK) or ("",))))
