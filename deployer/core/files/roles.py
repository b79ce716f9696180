"""Traits for operator signatures that frameworks write to files and ONNX does not define."""

from dataclasses import dataclass
from typing import ClassVar

from deployer.core.signatures import Signature


@dataclass(frozen=True)
class Limiter:
    """Declares that files limit all gradients together by a node over their sequence, whose scale the operator gives.

    The node is `name` in MICROSOFT's domain, of that form; `attribute` holds the limit, by default `limit`.
    """

    name: str
    form: Signature
    attribute: str
    limit: float


@dataclass(frozen=True)
class SoleOutput:
    """Declares that files may have the output at `position` of a loss alone, as if it were the first.

    It is told by its shape, or by a node of operator `reader` that reads it.
    """

    position: int
    reader: str


class FileRoles:
    """Trait: declares which of these signatures an operator has. Default: none.

    `open_shape` is the attribute with the shape of the result where inputs leave that open; where a node has none, it
    is the shape that the file declares.
    """

    limiter: ClassVar[Limiter | None] = None
    sole_output: ClassVar[SoleOutput | None] = None
    open_shape: ClassVar[str] = ""
