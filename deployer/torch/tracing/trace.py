"""Traces one training step of a module: loss, gradients and new buffers as PyTorch's autograd makes them."""

import contextlib
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._dispatch.python import enable_python_dispatcher
from torch.fx import GraphModule, Interpreter
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta
from torch.nn.attention import SDPBackend, sdpa_kernel

from deployer.core.errors import DeployerError, GraphProblem, UnsupportedOperator
from deployer.core.packages import walk
from deployer.torch import lowerings
from deployer.torch.graph import LOWERINGS
from deployer.torch.tracing.caches import check_kept, empty_caches, makes_tensors
from deployer.torch.tracing.composites import Composites
from deployer.torch.tracing.draws import Draws, TracedDraws
from deployer.torch.tracing.module_state import (
    HeldState,
    attributes_kept,
    check_unchanged,
    held_by,
    parameter_hooks,
    random_state_kept,
    undrawn,
)
from deployer.torch.tracing.places import Places, place_of, tracked

Loss = Callable[..., Tensor]
"""(module, *data tensors) -> the loss of a batch, one float."""


@dataclass(frozen=True)
class Traced:
    """A step as a functional graph of ATen operators.

    The graph's inputs are the trained parameters, the states, the frozen parameters, and the data, in the orders of the
    names; its results the loss, a gradient or None for each trained parameter, and each state and each parameter
    afterwards. `streams` is how often numbers are drawn.
    """

    graph: GraphModule
    trained: tuple[str, ...]
    states: tuple[str, ...]
    frozen: tuple[str, ...]
    data: tuple[str, ...]
    held: HeldState
    streams: int


def trace_step(
    module: nn.Module,
    loss: Loss,
    data: Mapping[str, Tensor],
    share: bool = False,
    drops: bool = True,
    changing: Collection[str] = (),
) -> Traced:
    """The step of a module on data of these shapes.

    With a `share` the last of these is what the gradient begins with. Unless it `drops`, dropout is left out. States
    that are not `changing` may be taken for constants; where a step writes such a one, it is traced again.

    The module keeps its tensors, attributes, gradients and hooks, and PyTorch its random state. Raises GraphProblem
    where forward fails, branches on values, or changes Python attributes, and UnsupportedOperator for what cannot be
    traced.
    """
    held = held_by(module)
    trained, states = held.trained, tuple(held.states)
    frozen = tuple(n for n in held.parameters if n not in trained)
    tensors = [held.parameter(n).detach().clone() for n in trained]
    tensors += [held.state(n).detach().clone() for n in states]
    tensors += [held.parameter(n).detach().clone() for n in frozen]
    inputs = [*tensors, *(x.detach().clone() for x in data.values())]
    draws = TracedDraws(drops)
    step = _Step(module, held, loss, trained, states, frozen, draws, share, frozenset(changing))
    with attributes_kept(module) as before, random_state_kept(), _explained():
        step.before = before
        with enable_python_dispatcher():  # else batch norms write their running statistics unseen
            joint = _graph_of(step, inputs)
    if step.changing > frozenset(changing):
        return trace_step(module, loss, data, share, drops, step.changing)
    _check_constants(joint)
    return Traced(_functional(joint, inputs), trained, states, frozen, tuple(data), held, draws.streams)


def _graph_of(function: Callable[..., Any], inputs: Sequence[Tensor]) -> GraphModule:
    """The graph of what a function of tensors calls; no cache of a function keeps tensors of it."""
    graph = None
    try:
        graph = make_fx(function, tracing_mode="fake", _allow_non_fake_inputs=True)(*inputs)
    finally:
        if makes_tensors(graph):
            empty_caches()
    check_kept(graph)
    return graph


def _check_constants(joint: GraphModule) -> None:
    """Raise GraphProblem where forward writes a tensor that is neither a buffer nor an attribute of the module."""
    for node in joint.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        writes = [i for i, a in enumerate(schema.arguments) if a.alias_info and a.alias_info.is_write] if schema else []
        for position in writes:
            base = node.args[position] if position < len(node.args) else None
            while isinstance(base, torch.fx.Node) and base.op == "call_function" and _is_view(base):
                base = base.args[0]
            if isinstance(base, torch.fx.Node) and base.op == "get_attr":
                shape = list(getattr(joint, str(base.target)).shape)
                hint = "a buffer: self.register_buffer(name, tensor), which is kept from pass to pass"
                facts = [
                    ("operator", str(node.target)),
                    ("tensor", f"of shape {shape}"),
                    ("in", place_of(node) or "the module"),
                ]
                raise GraphProblem("forward writes a tensor that is not a buffer of the module", facts, hint)


def _is_view(node: torch.fx.Node) -> bool:
    """Whether the operator gives a part of the memory of its first argument, or that itself."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(r.alias_info is not None for r in schema.returns) and bool(node.args)


def trace_forward(module: nn.Module, output: Loss, data: Mapping[str, Tensor], training: bool = False) -> Traced:
    """Trace what `output` computes of a module and of data of these shapes, without gradients.

    The graph's only result is that tensor; all parameters count as frozen.
    """
    held = held_by(module)
    names, states = tuple(held.parameters), tuple(held.states)
    tensors = [*(held.state(n).detach().clone() for n in states), *(held.parameter(n).detach().clone() for n in names)]
    inputs = [*tensors, *(x.detach().clone() for x in data.values())]
    draws = TracedDraws()

    def run(*given: Tensor) -> tuple[Tensor]:
        own = dict(zip(states, given, strict=False)), dict(zip(names, given[len(states) :], strict=False))
        modes = (sdpa_kernel(SDPBackend.MATH), draws, Composites(draws), tracked(module))
        with held.swapped(own[1], {n: t.clone() for n, t in own[0].items()}), contextlib.ExitStack() as stack:
            for mode in modes:
                stack.enter_context(mode)
            return (output(module, *given[len(tensors) :]),)

    modes_of = [(submodule, submodule.training) for submodule in module.modules()]
    with attributes_kept(module), random_state_kept(), torch.no_grad(), _explained(), enable_python_dispatcher():
        try:
            module.train(training)
            forward = _graph_of(run, inputs)
        finally:
            for submodule, mode in modes_of:
                submodule.training = mode
    return Traced(_functional(forward, inputs), (), states, names, tuple(data), held, draws.streams)


@dataclass(eq=False)
class _Step:
    """The step as a function of tensors alone, which make_fx runs once."""

    module: nn.Module
    held: HeldState
    loss: Loss
    trained: Sequence[str]
    states: Sequence[str]
    frozen: Sequence[str]
    draws: Draws
    share: bool
    changing: frozenset[str] = frozenset()
    """States that are no constants; those that a run has written are added to them."""
    before: Mapping[str, Any] | None = None

    def __call__(self, *tensors: Tensor) -> tuple[Any, ...]:
        """Loss, gradients, states and parameters afterwards."""
        count, middle = len(self.trained), len(self.trained) + len(self.states)
        end = middle + len(self.frozen)
        leaves = {n: t.detach().requires_grad_() for n, t in zip(self.trained, tensors[:count], strict=True)}
        states = {n: t.clone() for n, t in zip(self.states, tensors[count:middle], strict=True)}
        fixed = dict(zip(self.frozen, tensors[middle:end], strict=True))
        data = tensors[end:]
        given = {n: _as_parameter(t) for n, t in (leaves | fixed).items()}
        composites = Composites(self.draws)
        for name in set(states) - self.changing:
            composites.values.note(states[name], self.held.state(name), [name])
        # Attention by the MATH backend: of the fused one the forward alone is decomposed, and its gradient then wrong.
        modes = (sdpa_kernel(SDPBackend.MATH), self.draws, composites, tracked(self.module))
        with self.held.swapped(given, states), torch.enable_grad(), contextlib.ExitStack() as stack:
            *_, places = [stack.enter_context(mode) for mode in modes]
            with undrawn():
                loss = self.loss(self.module, *(data[:-1] if self.share else data))
            _check_loss(loss)
            # Parameters stay in place while gradients are taken: checkpointing runs forward again.
            grads = self._gradients(loss.reshape(()), leaves, data[-1].reshape(()) if self.share else None, places)
            after = [self._after(n) for n in self.states]
            self.changing |= {n for n in composites.values.relied if not self._is_unwritten(n, states[n])}
            changed = [self.held.parameters[n][0].get() for n in (*self.trained, *self.frozen)]
            if self.before is not None:
                check_unchanged(self.module, self.before)
        return (loss.detach().reshape(()), *grads, *after, *(p.detach() for p in changed))

    def _is_unwritten(self, name: str, state: Tensor) -> bool:
        return self.held.states[name][0].get() is state and state._version == 0

    def _after(self, name: str) -> Tensor:
        value = self.held.states[name][0].get()
        if not isinstance(value, Tensor):
            hint = "a tensor of the same shape and dtype there"
            raise GraphProblem(f"forward replaces {name!r}, a tensor, by {type(value).__name__}", hint=hint)
        return value.detach()

    def _gradients(
        self, loss: Tensor, leaves: Mapping[str, Tensor], first: Tensor | None, places: Places
    ) -> list[Tensor | None]:
        if not leaves:
            raise GraphProblem("the module has no parameter that requires a gradient", hint="requires_grad_(True)")
        if not loss.requires_grad:
            hint = "a loss that is computed from the module's parameters, outside of torch.no_grad"
            raise GraphProblem("the loss depends on no parameter that requires a gradient", hint=hint)
        places.follow(loss)
        tensors = list(leaves.values())
        grads = torch.autograd.grad(loss, tensors, first, allow_unused=True)
        return [_hooked(self.parameters[n], leaf, g) for (n, leaf), g in zip(leaves.items(), grads, strict=True)]

    def __post_init__(self) -> None:
        """Remember the module's own parameters, which have the hooks."""
        self.parameters = {n: self.held.parameter(n) for n in self.held.parameters}


def _as_parameter(tensor: Tensor) -> Tensor:
    """A tensor that the module takes for a parameter, as isinstance sees it."""
    tensor._is_param = True
    return tensor


def _hooked(parameter: nn.Parameter, leaf: Tensor, grad: Tensor | None) -> Tensor | None:
    """The gradient as the hooks of a parameter leave it."""
    plain, behind = parameter_hooks(parameter)
    if grad is None:
        return None
    for hook in plain:
        result = hook(grad)
        grad = grad if result is None else result
    if not behind:
        return grad
    stand_in = leaf.detach().requires_grad_()
    stand_in.grad = grad
    before = stand_in._version
    for hook in behind:
        hook(stand_in)
    if stand_in._version != before:
        hint = "a hook that changes only the gradient; deployer.torch.train applies the optimizer"
        raise GraphProblem("a hook behind the accumulation of a gradient changes the parameter itself", hint=hint)
    return stand_in.grad


def _check_loss(loss: Any) -> None:
    if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.is_floating_point():
        found = f"{loss.dtype} {list(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
        raise GraphProblem("the loss is not one float", [("found", found)], "a mean or a sum over the batch")


def _functional(joint: GraphModule, inputs: Sequence[Tensor]) -> GraphModule:
    """The graph without writes in place, in operators that have a lowering or no decomposition."""

    def again(*tensors: Tensor) -> Any:
        with preserve_node_meta():
            return Interpreter(joint).run(*tensors)

    plain = [t.detach() for t in inputs]
    with torch.no_grad(), random_state_kept(), _explained():
        function = torch.func.functionalize(again, remove="mutations")
        graph = make_fx(function, _decompositions(), tracing_mode="fake", _allow_non_fake_inputs=True)(*plain)
    return graph


def _decompositions() -> dict[Any, Any]:
    """Those of PyTorch for operators that have no lowering here."""
    walk(lowerings)
    others = {op: rule for op, rule in decomposition_table.items() if torch.Tag.core not in getattr(op, "tags", ())}
    known = {**others, **core_aten_decompositions()}
    return {op: rule for op, rule in known.items() if operator_name(op) not in LOWERINGS}


def operator_name(target: Any) -> str:
    """The operator's name without namespace and overload; of views, without what marks a copy of one."""
    if not hasattr(target, "_schema"):
        return str(getattr(target, "__name__", target))
    space, _, name = str(target._schema.name).partition("::")
    name = name.removesuffix("_copy") if name not in ("_to_copy", "index_copy") else name
    return name if space == "aten" else f"{space}::{name}"


BRANCHES = ("DataDependentOutputException", "GuardOnDataDependentSymNode", "UserError", "DynamicOutputShapeException")


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Turn what PyTorch raises while it traces into an error of ours that names the line of the user's code."""
    try:
        yield
    except DeployerError:
        raise
    except Exception as error:
        facts = [("at", place)] if (place := _users_line(error)) else []
        name, text = type(error).__name__, str(error).strip()
        own = next((e for e in (error.__cause__, error.__context__) if isinstance(e, DeployerError)), None)
        if own is not None:
            raise own from None
        if name in BRANCHES or "data-dependent" in text or ".item()" in text:
            cause = "the module's computation depends on the values of a tensor: which operators run, or their shapes"
            hint = "torch.where, masks, or a Python number in the module"
            raise UnsupportedOperator(cause, [*facts, ("PyTorch says", text.splitlines()[0][:200])], hint) from error
        first = text.splitlines()[0][:300] if text else name
        raise GraphProblem(f"the module cannot be traced: {name}", [*facts, ("PyTorch says", first)], _HINT) from error


_HINT = "a forward pass and a loss that run on tensors of these shapes; print them by running the module once itself"


def _users_line(error: BaseException) -> str:
    """The innermost line of the traceback that is neither PyTorch's nor ours."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not _is_internal(f.filename)]
    return f"{frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}" if frames else ""


def _is_internal(file: str) -> bool:
    folders = file.replace("\\", "/").split("/")
    return "torch" in folders or file.startswith("<") or "contextlib.py" in folders
