"""C kernels as operators declare them: symbol and argument struct, values of arguments, and the work of a tile."""

from dataclasses import dataclass
from typing import Literal

from deployer.core.ir import DTYPES
from deployer.core.safe_text import identifier

MOST_NUMBERS = 1 << 12
"""The most numbers that a program reads at an update."""


@dataclass(frozen=True)
class Const:
    """A kernel argument known at compile time."""

    value: int | float


@dataclass(frozen=True)
class Extent:
    """Length of the tile along a dim."""

    dim: str


@dataclass(frozen=True)
class Start:
    """First index of the tile along a dim."""

    dim: str


@dataclass(frozen=True)
class Stride:
    """Elements between neighbours along a view axis of an operand's buffer; 0 on a broadcast axis."""

    arg: str
    axis: int


@dataclass(frozen=True)
class First:
    """1 on the first tile of all reductions together, else 0."""


@dataclass(frozen=True)
class Last:
    """1 on the last tile of all reductions together, else 0."""


@dataclass(frozen=True)
class Offset:
    """Index at which a tile's windows begin on an axis, relative to the operand's box; see `offset` of the axis."""

    arg: str
    axis: int


@dataclass(frozen=True)
class Length:
    """Length of an operand's box along an axis."""

    arg: str
    axis: int


@dataclass(frozen=True)
class Flag:
    """The lazy-reset flag of the running pass, 0 or 1."""


@dataclass(frozen=True)
class UpdateNumber:
    """Float kernel argument that the program reads at each update, by its index among the update's numbers."""

    place: int


ArgValue = Const | Extent | Start | Stride | First | Last | Offset | Length | Flag | UpdateNumber
CType = Literal["u32", "i32", "f32"]
SCALARS: dict[CType, int] = {"u32": 4, "i32": 4, "f32": 4}
"""Bytes of scalars in an argument struct."""


@dataclass(frozen=True)
class Kernel:
    """A C kernel: its symbol and the fields of its argument struct.

    `pointers` are (name, dtype, whether the kernel writes it) and `scalars` (name, C type), both in argument order;
    generated headers print exactly these.
    """

    symbol: str
    pointers: tuple[tuple[str, str, bool], ...]
    scalars: tuple[tuple[str, CType], ...]

    def __post_init__(self) -> None:
        """Refuse names that are no identifiers of C: a kernel may come from a file."""
        for name in (self.symbol, *(p[0] for p in self.pointers), *(s[0] for s in self.scalars)):
            identifier(name)

    def element_bytes(self, arg: str) -> int:
        """Bytes of an element behind a pointer."""
        return next(DTYPES[dtype] for name, dtype, _ in self.pointers if name == arg)

    def table_bytes(self, pointer_bytes: int) -> int:
        """Bytes of one argument struct on a target with pointers of that size."""
        return len(self.pointers) * pointer_bytes + sum(SCALARS[kind] for _, kind in self.scalars)


def function_name(symbol: str, variant: str) -> str:
    """Return the C function of a kernel, or of a variant of it."""
    return f"{symbol}_{variant}" if variant else symbol


@dataclass(frozen=True)
class Work:
    """The work of the kernel on one tile.

    It is `macs` multiply-accumulates and `elements` other element operations, in `parallel` pieces that cores share.
    `cost_class` names shapes with costs of their own. `overhead_macs` is overhead in multiply-accumulates, of
    incomplete blocks or to finish an output; `inner_loop_starts` is how often cores begin an inner loop. `then` follows
    in another cost class.
    """

    macs: int
    elements: int
    parallel: int
    cost_class: str = ""
    overhead_macs: int = 0
    inner_loop_starts: int = 0
    then: "Work | None" = None

    @property
    def products(self) -> int:
        """Multiply-accumulates, with the overhead."""
        return self.macs + self.overhead_macs
