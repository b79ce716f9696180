"""Attention that a module writes out, followed while it runs, so that each is traced as one operator.

Attention is a product of queries and keys, scaled, masked by numbers that are known while it is traced, its softmax,
and the product of that with values. Keys and values that are repeated for the heads of a group stay what they were
before. What was computed on the way stays in the trace, where nobody reads it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from deployer.torch.tracing.known_values import KnownValues
from deployer.torch.tracing.norms import ALIASES, PRODUCTS, QUOTIENTS, SUMS

Attention = Callable[[Tensor, Tensor, Tensor, Tensor | None, float, bool], Tensor]
"""(queries, keys, values, mask, scale, whether causal) -> attention as one operator."""
HIDDEN = -1e9
"""A score of at most that is taken for minus infinity, where a query sees another one: its share would be another than
zero only if all scores that the query sees were below it, too."""
MATRICES = ("matmul", "__matmul__", "bmm")
TRANSPOSED = ("transpose", "swapaxes", "swapdims", "transpose_copy")
IN_PLACE = {"mul_": "mul", "__imul__": "mul", "div_": "div", "__itruediv__": "div", "add_": "add", "__iadd__": "add",
            "masked_fill_": "masked_fill"}  # fmt: skip
"""Functions that write to their first argument, and what they compute."""


@dataclass(frozen=True)
class Scores:
    """Products of queries and keys, times a number, plus a mask, of which the values are known; or their softmax.

    `behind` are the tensors that it was before.
    """

    tensor: Tensor
    q: Tensor
    k: Tensor
    scale: float = 1.0
    mask: Tensor | None = None
    traced_mask: Tensor | None = None
    is_softmax: bool = False
    behind: tuple[Tensor, ...] = ()
    versions: tuple[int, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether nobody has written to a tensor since, and no hook changes a gradient on the way."""
        return self.versions == self._versions and not any(x._backward_hooks for x in (self.tensor, *self.behind))

    @property
    def _versions(self) -> tuple[int, ...]:
        return tuple(t._version for t in (self.tensor, self.q, self.k))

    def of(self, tensor: Tensor) -> "Scores":
        """The same of another tensor, at the versions that all have now."""
        behind = self.behind if tensor is self.tensor else (*self.behind, self.tensor)
        found = replace(self, tensor=tensor, behind=behind)
        return replace(found, versions=found._versions)


@dataclass(frozen=True)
class Repeated:
    """A tensor in which each element of `source` along an axis is there `count` times, one after another.

    Where it is `open`, the copies are an axis of their own, behind that axis; with a count of 0 it has one element.
    """

    tensor: Tensor
    source: Tensor
    axis: int
    count: int
    is_open: bool = False
    behind: tuple[Tensor, ...] = ()
    versions: tuple[int, int] = (0, 0)

    @property
    def holds(self) -> bool:
        """Whether nobody has written to either since, and no hook changes a gradient on the way."""
        written = (self.tensor._version, self.source._version) != self.versions
        return not written and not any(x._backward_hooks for x in (self.tensor, *self.behind))


@dataclass
class WrittenAttention:
    """Facts about the tensors of a trace, which are kept alive so that none takes another's place."""

    attention: Attention
    values: KnownValues
    scores: dict[int, Scores] = field(default_factory=dict)
    repeated: dict[int, Repeated] = field(default_factory=dict)

    def scores_of(self, args: Sequence[Any]) -> Scores | None:
        """Return the facts about the first tensor of scores among the arguments."""
        tensors = [a for a in args if isinstance(a, Tensor)]
        return next((known for t in tensors if (known := self._scores(t)) is not None), None)

    def replaced(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return what stands for a call, and NotImplemented where it ends no attention."""
        if kwargs or is_computed_again():
            return NotImplemented
        operands, order = args, None
        if name == "einsum":
            written = _equation(args)
            if written is None:
                return NotImplemented
            operands, order = written
        if (name != "einsum" and name not in MATRICES) or len(operands) != 2:
            return NotImplemented
        shares, v = operands
        known = self._scores(shares) if isinstance(shares, Tensor) and isinstance(v, Tensor) else None
        if known is None or not known.is_softmax or not torch.is_grad_enabled():
            return NotImplemented
        if order is not None:
            result = _valued(order, v, self._ordered)
            if result is None:
                return NotImplemented
            v, behind = result
            y = self._attended(known, v)
            return y if y is NotImplemented else behind(y)
        return self._attended(known, v)

    def grouped(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor] | None:
        """Keys and values before they were repeated for the heads of queries; None where they were not."""
        found = [self._repeated(x) for x in (key, value)]
        if query.dim() < 3 or any(r is None or r.is_open or r.axis != query.dim() - 3 for r in found):
            return None
        (k, v) = (r for r in found if r is not None)
        return (k.source, v.source) if k.count == v.count else None

    def ungrouped(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of PyTorch's attention with keys and values as they were before they were repeated."""
        given = {**dict(zip(("query", "key", "value"), args, strict=False)), **kwargs}
        operands = [given.get(name) for name in ("query", "key", "value")]
        if all(isinstance(x, Tensor) for x in operands) and not given.get("enable_gqa"):
            q, k, v = (x for x in operands if isinstance(x, Tensor))
            if q.dim() > 3 and (found := self.grouped(q, k, v)) is not None:
                given |= {"query": q, "key": found[0], "value": found[1], "enable_gqa": True}
                names = ("attn_mask", "dropout_p", "is_causal", "scale")
                return (), {**given, **dict(zip(names, args[3:], strict=False))}
        return tuple(args), dict(kwargs)

    def see(
        self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], before: Scores | None, result: Any
    ) -> None:
        """Note what the result of a call is; `before` is what was known of scores among its arguments."""
        if not isinstance(result, Tensor) or result.dtype != torch.float32 or not args:
            return
        name = IN_PLACE.get(name, name)
        self._see_repetition(name, args, kwargs, result)
        if before is None:
            self._see_product(name, args, kwargs, result)
        elif result.requires_grad == before.tensor.requires_grad and result.shape == before.tensor.shape:
            found = self._further(name, args, kwargs, before)
            if found is not None:
                self.scores[id(result)] = found.of(result)

    def _further(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], known: Scores) -> Scores | None:
        """The scores behind a call that scales, masks or copies them, or takes their softmax."""
        if name in (*ALIASES, "clone") and args[0] is known.tensor:
            return known
        if known.is_softmax:
            return None
        if name == "softmax":
            return replace(known, is_softmax=True) if _is_last(known, args, kwargs) else None
        if name in (*PRODUCTS, *QUOTIENTS) and not kwargs and len(args) == 2 and known.mask is None:
            number = self._number(args[1] if args[0] is known.tensor else args[0])
            if number is None or (name in QUOTIENTS and (args[0] is not known.tensor or not number)):
                return None
            return replace(known, scale=known.scale * number if name in PRODUCTS else known.scale / number)
        if name in SUMS and not kwargs and len(args) == 2:
            return self._masked(known, args[1] if args[0] is known.tensor else args[0])
        if name == "masked_fill" and args[0] is known.tensor:
            mask, value = [*args[1:], *(kwargs[n] for n in ("mask", "value") if n in kwargs)][:2]
            return self._filled(known, mask, self._number(value))
        if name == "where" and not kwargs and len(args) == 3:
            return self._chosen(known, args)
        return None

    def _chosen(self, known: Scores, args: Sequence[Any]) -> Scores | None:
        """Scores where a condition holds, or where it does not, and a number elsewhere."""
        condition = args[0]
        if (args[1] is known.tensor) == (args[2] is known.tensor) or not isinstance(condition, Tensor):
            return None
        is_first = args[1] is known.tensor
        return self._filled(known, condition, self._number(args[2 if is_first else 1]), not is_first)

    def _filled(self, known: Scores, hides: Any, number: float | None, hidden_if: bool = True) -> Scores | None:
        """Scores that are the number where `hides` is `hidden_if`, if that is minus infinity or as good as that."""
        value = self._value(hides)
        if value is None or number is None or number > HIDDEN:
            return None

        def filled(mask: Tensor | None, where: Tensor) -> Tensor:
            where = where.bool() if hidden_if else ~where.bool()
            return torch.where(where, -math.inf, torch.zeros(()) if mask is None else mask)

        with _disable_current_modes():
            mask = filled(known.mask, value)
        found = replace(known, mask=mask, traced_mask=filled(known.traced_mask, hides))
        return found if _shows_some(known, mask) else None

    def _masked(self, known: Scores, added: Any) -> Scores | None:
        """Scores with numbers added to them."""
        value = self._value(added)
        if value is None or value.dtype != torch.float32:
            return None

        def plus(mask: Tensor | None, number: Tensor, hides: bool) -> Tensor:
            total = number if mask is None else mask + number
            return torch.where(total <= HIDDEN, -math.inf, total) if hides else total

        for hides in (True, False):
            with _disable_current_modes():
                mask = plus(known.mask, value, hides)
            if _shows_some(known, mask):
                return replace(known, mask=mask, traced_mask=plus(known.traced_mask, added, hides))
        return None

    def _attended(self, known: Scores, v: Tensor) -> Any:
        """Attention as one operator, and NotImplemented for shapes that it does not have."""
        q, k = known.q, known.k
        k, v = self.grouped(q, k, v) or (k, v)
        fits = q.dim() == k.dim() == v.dim() and v.dtype == torch.float32 and k.shape[:-1] == v.shape[:-1]
        if not fits or q.shape[:-3] != k.shape[:-3] or not all(x.numel() for x in (q, k, v)):
            return NotImplemented
        if q.dim() > 2 and q.shape[-3] % k.shape[-3]:
            return NotImplemented
        shape = (q.shape[-2], k.shape[-2])
        mask, causal = known.mask, False
        if mask is not None:
            with _disable_current_modes():
                lower = torch.where(torch.ones(shape).tril() > 0, 0.0, -math.inf)
                causal = mask.shape[-2:] == shape and bool((mask == lower).all())
                is_exact, is_needed = bool(((mask == 0) | mask.isinf()).all()), bool(mask.any())
            mask = None if causal or not is_needed else mask if is_exact else known.traced_mask
        return self.attention(q, k, v, mask, known.scale, causal)

    def _see_product(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Tensor) -> None:
        """Note a product of queries and keys, which may as well be one of any other matrices."""
        if kwargs or (name not in MATRICES and name != "einsum"):
            return
        if name == "einsum":
            written = _equation(args)
            pair = None if written is None else _scored(written[1], *written[0], self._ordered)
        else:
            pair = (args[0], args[1]) if len(args) == 2 else None
            pair = pair if pair and all(isinstance(a, Tensor) and a.dim() >= 2 for a in pair) else None
            pair = None if pair is None else (pair[0], self._swapped(pair[1]))
        if pair is None or any(x.dtype != torch.float32 for x in pair):
            return
        q, k = pair
        fits = q.dim() == k.dim() and result.shape == (*q.shape[:-1], k.shape[-2])
        if fits and result.requires_grad == (q.requires_grad or k.requires_grad):
            self.scores[id(result)] = Scores(result, q, k).of(result)

    def _swapped(self, x: Tensor) -> Tensor:
        """The tensor with its last axes swapped, which is noted, too, if it is a repeated one."""
        result = x.transpose(-2, -1)
        self._see_repetition("transpose", (x, -2, -1), {}, result)
        return result

    def _ordered(self, x: Tensor, letters: str, to: str) -> Tensor:
        """The tensor with its axes in another order, which is noted, too, if it is a repeated one."""
        result = _ordered(x, letters, to)
        if result is not x:
            self._see_repetition("permute", (x, [letters.index(c) for c in to]), {}, result)
        return result

    def _see_repetition(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Tensor) -> None:
        """Note a tensor of which elements are repeated along an axis, also behind changes of its axes."""
        x = args[0]
        if not isinstance(x, Tensor) or x.dtype != torch.float32 or result.requires_grad != x.requires_grad:
            return
        known = self._repeated(x)
        if name == "repeat_interleave":
            self._interleaved(x, args, kwargs, result)
        elif known is None:
            self._opened(name, args, result)
        elif name in (*ALIASES, "clone"):
            self._note(result, known.source, known.axis, known.count, known.is_open, known)
        elif name in ("expand", "repeat", "broadcast_to", "expand_as") and known.is_open and known.count == 0:
            count = result.shape[known.axis + 1] if result.dim() == x.dim() else 0
            if count and result.shape == (*x.shape[: known.axis + 1], count, *x.shape[known.axis + 2 :]):
                self._note(result, known.source, known.axis, count, True, known)
        elif name in ("reshape", "view", "flatten") and known.is_open and known.count:
            shape = list(known.source.shape)
            shape[known.axis] *= known.count
            if list(result.shape) == shape:
                self._note(result, known.source, known.axis, known.count, False, known)
        elif not known.is_open and (name in TRANSPOSED or name == "permute"):
            order = _order(name, args, kwargs, x.dim())
            if order is not None:
                self._note(result, known.source.permute(order), order.index(known.axis), known.count, False, known)

    def _interleaved(self, x: Tensor, args: Sequence[Any], kwargs: Mapping[str, Any], result: Tensor) -> None:
        given = {**dict(zip(("repeats", "dim"), args[1:], strict=False)), **kwargs}
        count, dim = given.get("repeats"), given.get("dim")
        if isinstance(count, int) and isinstance(dim, int) and count > 0:
            self._note(result, x, dim % x.dim(), count)

    def _opened(self, name: str, args: Sequence[Any], result: Tensor) -> None:
        """Note a tensor with one axis more, of one element, or one whose only element along an axis is there often."""
        x = args[0]
        if name == "__getitem__" and not _keeps_order(args[1]):
            return
        if name not in ("unsqueeze", "__getitem__", "view", "reshape") or result.dim() != x.dim() + 1:
            if name == "expand" and result.dim() == x.dim():
                changed = [a for a in range(x.dim()) if result.shape[a] != x.shape[a]]
                if len(changed) == 1 and x.shape[changed[0]] == 1:
                    self._note(result, x, changed[0], result.shape[changed[0]])
            return
        opened = [a for a in range(1, result.dim()) if [*x.shape[:a], 1, *x.shape[a:]] == list(result.shape)]
        if len(opened) == 1:
            self._note(result, x, opened[0] - 1, 0, True)

    def _note(
        self,
        result: Tensor,
        source: Tensor,
        axis: int,
        count: int,
        is_open: bool = False,
        before: Repeated | None = None,
    ) -> None:
        versions = (result._version, source._version)
        behind = (*before.behind, before.tensor) if before else ()
        self.repeated[id(result)] = Repeated(result, source, axis, count, is_open, behind, versions)

    def _scores(self, tensor: Tensor) -> Scores | None:
        known = self.scores.get(id(tensor))
        return known if known is not None and known.holds else None

    def _repeated(self, tensor: Tensor) -> Repeated | None:
        known = self.repeated.get(id(tensor))
        return known if known is not None and known.holds else None

    def _value(self, x: Any) -> Tensor | None:
        return self.values.value(x) if isinstance(x, Tensor) else None

    def _number(self, x: Any) -> float | None:
        """A number, also that of a tensor with one element."""
        if isinstance(x, Tensor):
            value = self.values.value(x) if x.numel() == 1 else None
            with _disable_current_modes():
                return None if value is None else float(value)
        return float(x) if isinstance(x, int | float) and not isinstance(x, bool) else None


def _is_last(known: Scores, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a softmax is one of scores along their last axis in float32."""
    given = {**dict(zip(("dim",), args[1:], strict=False)), **kwargs}
    rank = known.tensor.dim()
    plain = given.get("dtype") in (None, torch.float32) and args[0] is known.tensor
    return plain and given.get("dim") in (-1, rank - 1)


def _shows_some(known: Scores, mask: Tensor) -> bool:
    """Whether the mask broadcasts to the scores, and each query sees a key."""
    with _disable_current_modes():
        try:
            fits = torch.broadcast_shapes(mask.shape, known.tensor.shape) == known.tensor.shape
        except RuntimeError:
            return False
        shape = tuple(known.tensor.shape[-1:])
        rows = mask.expand(*mask.shape[:-1], *shape) if mask.dim() else mask.expand(shape)
        return fits and bool((rows > -math.inf).any(-1).all()) and not bool(mask.isnan().any())


def is_computed_again() -> bool:
    """Whether what is saved for gradients is left out, and computed again without this mode, as in a checkpoint."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


def _keeps_order(index: Any) -> bool:
    """Whether an index takes elements in their order: slices and new axes alone."""
    items = index if isinstance(index, tuple) else (index,)
    return all(item is None or item is ... or isinstance(item, slice) for item in items)


def _order(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], rank: int) -> list[int] | None:
    """The axes of the operand in the order of the result; None where they are given in another way."""
    given = args[1:]
    if kwargs or not given:
        return None
    if name == "permute":
        listed = list(given[0]) if isinstance(given[0], list | tuple | torch.Size) else list(given)
        return [a % rank for a in listed]
    order = list(range(rank))
    a, b = (x % rank for x in given)
    order[a], order[b] = order[b], order[a]
    return order


Equation = tuple[str, str, str]
"""Letters of both operands and of the result."""


def _equation(args: Sequence[Any]) -> tuple[tuple[Tensor, Tensor], Equation] | None:
    """The operands and letters of a product of two tensors by einsum; None of another."""
    operands = list(args[1]) if len(args) == 2 and isinstance(args[1], list | tuple) else list(args[1:])
    if not args or not isinstance(args[0], str) or len(operands) != 2:
        return None
    text = args[0].replace(" ", "")
    inputs, arrow, result = text.partition("->")
    first, comma, second = inputs.partition(",")
    letters = (first, second, result)
    plain = all(x.isalpha() and len(set(x)) == len(x) for x in letters)
    if not arrow or not comma or not plain or not all(isinstance(x, Tensor) for x in operands):
        return None
    return (operands[0], operands[1]), letters


Ordered = Callable[[Tensor, str, str], Tensor]
"""(tensor, letters of its axes, the same in another order) -> the tensor with its axes in that order."""


def _ordered(x: Tensor, letters: str, to: str) -> Tensor:
    order = [letters.index(c) for c in to]
    return x if order == list(range(x.dim())) else x.permute(order)


def _with_heads(lead: str, letters: str, x: Tensor) -> tuple[str, Tensor]:
    """Letters and tensor of keys or values, with an axis of one head if all heads share them."""
    if not lead or [c for c in lead if c not in letters] != [lead[-1]]:
        return letters, x
    return lead[-1] + letters, x.unsqueeze(0)


def _scored(letters: Equation, a: Tensor, b: Tensor, ordered: Ordered) -> tuple[Tensor, Tensor] | None:
    """Queries and keys of which an equation makes scores, with shared axes first; None of another product."""
    first, second, result = letters
    if len(result) < 2 or result[-2] in second:
        return None
    lead, query, key = result[:-2], result[-2], result[-1]
    second, b = _with_heads(lead, second, b)
    width = set(first) - set(lead) - {query}
    if len(width) != 1 or set(first) - {query} != set(second) - {key} or set(result) - {query, key} != set(lead):
        return None
    (depth,) = width
    if set(first) != {*lead, query, depth} or set(second) != {*lead, key, depth} or depth in result:
        return None
    return ordered(a, first, f"{lead}{query}{depth}"), ordered(b, second, f"{lead}{key}{depth}")


def _valued(letters: Equation, v: Tensor, ordered: Ordered) -> tuple[Tensor, Callable[[Tensor], Tensor]] | None:
    """Values in the order of shares, and what orders the result; None where an equation is another product."""
    first, second, result = letters
    if len(first) < 2:
        return None
    lead, query, key = first[:-2], first[-2], first[-1]
    second, v = _with_heads(lead, second, v)
    width = set(second) - {*lead, key}
    if len(width) != 1 or not set(lead) <= set(second) or key not in second or query in second:
        return None
    (depth,) = width
    if set(result) != {*lead, query, depth} or len(second) != len(first):
        return None
    made = f"{lead}{query}{depth}"
    return ordered(v, second, f"{lead}{key}{depth}"), lambda y: _ordered(y, made, result)
