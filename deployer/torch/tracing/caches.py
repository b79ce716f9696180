"""Caches of functions that a module calls: tensors of a trace or of a check in float64 must not stay in them."""

import functools
import gc
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule

from deployer.core.errors import GraphProblem

CACHED = type(functools.cache(len))
"""The type of a function behind `functools.cache` or `functools.lru_cache`."""


def empty_caches() -> None:
    """Empty each cache of a function that keeps tensors without numbers, or in float64.

    Such are left by a trace and by a check in float64; the module's next run would take them for its own.
    """
    for function in [x for x in gc.get_objects() if type(x) is CACHED]:
        if function.cache_info().currsize and any(_holds_foreign(x) for x in gc.get_referents(function)):
            function.cache_clear()


def makes_tensors(graph: GraphModule | None) -> bool:
    """Whether a graph makes tensors without reading others, such as a table that a function may keep in a cache.

    None stands for a trace that failed, of which that is assumed.
    """
    return graph is None or any(n.op == "call_function" and not n.all_input_nodes for n in graph.graph.nodes)


def _holds_foreign(found: Any, depth: int = 5) -> bool:
    """Whether an object, or what its containers hold, is a tensor without numbers or in float64."""
    if isinstance(found, torch.Tensor):
        return isinstance(found, FakeTensor) or found.dtype == torch.float64
    if not depth or not (isinstance(found, dict | list | tuple | set) or type(found).__name__ == "_lru_list_elem"):
        return False
    return any(_holds_foreign(x, depth - 1) for x in gc.get_referents(found))


def check_kept(graph: GraphModule) -> None:
    """Raise GraphProblem where forward reads a tensor that an earlier trace made and Python kept outside the module."""
    for node in graph.graph.find_nodes(op="get_attr"):
        value = getattr(graph, str(node.target))
        if isinstance(value, FakeTensor):
            facts = [("tensor", f"{value.dtype} of shape {list(value.shape)}"), ("numbers", "none: it was only traced")]
            hint = "a buffer: self.register_buffer(name, tensor, persistent=False), made in __init__"
            raise GraphProblem("forward reads a tensor that an earlier run of it left outside the module", facts, hint)
