"""Forms of an operator in files."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from deployer.core.ir import Node
from deployer.core.signatures import MICROSOFT, Extra, Rule, Signature


@dataclass(frozen=True)
class Limiter:
    """Declares that files limit all gradients together by a node over their sequence, whose scale the operator gives.

    The node is `name` in MICROSOFT's domain, of that form; `attribute` holds the limit, by default `limit`.
    """

    name: str
    signature: Signature
    attribute: str
    limit: float


@dataclass(frozen=True)
class SoleOutput:
    """Declares that files may have the output at `position` of a loss alone, as if it were the first.

    It is told by its shape, or by a node of operator `reader` that reads it.
    """

    position: int
    reader: str


@dataclass(frozen=True, kw_only=True)
class FileSpec:
    """Trait: how files spell an operator, and what the front end does with such a node. Default: no file has it.

    `versions` are the versions of ONNX's operator with the meaning of this one. `older` maps each other version to a
    rule that expresses it by today's operators. `custom` is the signature of a node in `domain`, or in a default domain
    that lacks it; where `domain` is empty, exporters write it in the default domain, and `com.microsoft` is read too.
    An operator with neither versions nor a custom signature is internal. `aliases` are further op_types with the same
    meaning, `extras` attributes beyond the signature. `limiter` and `sole_output` are spellings of frameworks.

    `flags` are the attributes that are 0 or 1, `unbounded` those that may be infinite or NaN. `static_inputs` maps an
    input position that must be constant to the attribute that it becomes. `is_static` returns whether it becomes one,
    for its position and content, None if that is not constant; one that does and has no content is an error.
    `open_shape` is the attribute with the shape of the result where inputs leave that open; where a node has none, it
    is the shape that the file declares. `counts_outputs` says that absent outputs count as well, the last ones too.
    `literal` says that a node is a constant, `type_only` that its result depends on the type of its input alone.
    `by_body` returns, for a node and ONNX's element types of values, whether the node is of a form that ONNX's function
    body computes, and not the operator.
    """

    versions: tuple[int, ...] = ()
    older: Mapping[int, Rule] = field(default_factory=dict)
    custom: Signature | None = None
    domain: str = MICROSOFT
    aliases: tuple[str, ...] = ()
    extras: tuple[Extra, ...] = ()
    limiter: Limiter | None = None
    sole_output: SoleOutput | None = None

    flags: tuple[str, ...] = ()
    unbounded: tuple[str, ...] = ()
    static_inputs: Mapping[int, str] = field(default_factory=dict)
    is_static: Callable[[int, npt.NDArray[Any] | None], bool] = lambda position, value: True
    open_shape: str = ""
    counts_outputs: bool = False
    literal: bool = False
    type_only: bool = False
    by_body: Callable[[Node, Mapping[str, int]], bool] = lambda node, elements: False

    @property
    def in_files(self) -> bool:
        """Whether model files may contain the operator; otherwise it is internal to the compiler."""
        return bool(self.versions) or self.custom is not None


INTERNAL = FileSpec()
"""The forms of an operator that no file has."""
