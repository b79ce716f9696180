"""Graphs as in their files: nodes without types, unchecked declarations, constants of 32 or 64 bits."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from deployer.core.ir import Node


@dataclass(frozen=True)
class Declared:
    """The type that a file declares for a value: dtype (empty: unknown), shape (None: unknown, -1: unknown extent)."""

    dtype: str = ""
    shape: tuple[int, ...] | None = None


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
class Input:
    """A graph input and its declared type."""

    name: str
    declared: Declared


@dataclass(frozen=True)
class RawGraph:
    """One file's graph: nodes in file order; `domains` holds those of nodes outside the default domain.

    `versions` holds the schema versions of each node of the file, as `opsets.versions_of` gives them; it has none for a
    node that the compiler adds. `sequences` are the values that are sequences of tensors, `elements` ONNX's integer
    types of graph inputs and constants, `truths` inputs and constants that are bools in the file.
    """

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    constants: dict[str, RawConstant]
    declared: dict[str, Declared]
    domains: dict[str, str]
    versions: dict[str, tuple[int, ...]]
    sequences: tuple[str, ...] = ()
    elements: dict[str, int] = field(default_factory=dict)
    truths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """The files of one case: `main` is the training or inference graph, `optimizer` joins it by name."""

    main: RawGraph
    optimizer: RawGraph | None
