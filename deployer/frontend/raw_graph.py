"""Graphs as in their files: nodes without types, unchecked declarations, constants of 32 or 64 bits."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from onnx import NodeProto

from deployer.core.ir import Node

Note = tuple[str, tuple[tuple[str, str], ...]]
"""What is to be said of a file, and facts with their names."""


@dataclass(frozen=True)
class DeclaredTypes:
    """The type that a file declares for a value: dtype (empty: unknown), shape (None: unknown, -1: unknown extent).

    `axes` are the names of axes, empty where they have none, `element` is ONNX's element type (0: unknown).
    """

    dtype: str = ""
    shape: tuple[int, ...] | None = None
    axes: tuple[str, ...] = ()
    element: int = 0

    @property
    def static(self) -> bool:
        """Whether dtype and shape are known, with at least one element."""
        return bool(self.dtype) and self.shape is not None and all(d >= 1 for d in self.shape)

    def __str__(self) -> str:
        """Dtype and shape, with names or question marks for axes without length."""
        names = [*self.axes, *[""] * len(self.shape or ())]
        shape = (
            None
            if self.shape is None
            else ",".join(str(d) if d >= 0 else names[i] or "?" for i, d in enumerate(self.shape))
        )
        return f"{self.dtype or 'no dtype'} {'without shape' if shape is None else f'[{shape}]'}"


@dataclass(frozen=True)
class RawConstant:
    """A constant as float32 or int64; an operand of a kernel becomes int32 in the check stage."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @property
    def array(self) -> npt.NDArray[np.generic]:
        """The content as a read-only array."""
        return np.frombuffer(self.data, dtype=self.dtype).reshape(self.shape)


@dataclass(frozen=True)
class FileInput:
    """A graph input and its declared type."""

    name: str
    declared: DeclaredTypes


@dataclass(frozen=True)
class RawGraph:
    """One file's graph: nodes in file order; `domains` holds those of nodes outside the default domain.

    `versions` holds the schema versions of each node of the file, as `opsets.versions_of` gives them; it has none for a
    node that the compiler adds. `sequences` are the values that are sequences of tensors, `elements` ONNX's element
    types of graph inputs and constants that are integers or bools in the file, `notes` warnings about the file.
    `graphs` holds the file's nodes that have graphs inside, by name, each with the versions that its domains have.
    """

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[FileInput, ...]
    outputs: tuple[str, ...]
    constants: dict[str, RawConstant]
    declared: dict[str, DeclaredTypes]
    domains: dict[str, str]
    versions: dict[str, tuple[int, ...]]
    sequences: tuple[str, ...] = ()
    elements: dict[str, int] = field(default_factory=dict)
    notes: dict[str, Note] = field(default_factory=dict)
    graphs: dict[str, tuple[NodeProto, Mapping[str, tuple[int, ...]]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """The files of one case: `main` is the training or inference graph, `optimizer` joins it by name."""

    main: RawGraph
    optimizer: RawGraph | None
