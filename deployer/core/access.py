"""An operator's iteration space, and for each axis of each operand the map from a tile to the indices it touches.

The solver, the emitter, the verifier and the tests derive boxes, footprints, transfers and strides from it.
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from deployer.core.artefact import IF_ANY
from deployer.core.safe_text import identifier

Span = tuple[int, int]
Tile = Mapping[str, Span]
"""Per dim: (start, length) of the tile."""


@dataclass(frozen=True)
class Dim:
    """A named dim of the iteration space with its extent.

    All reduction dims together are one sum, whose terms are added in the lexicographic order of `Access.dims`. A
    reduction may be split only if every reduction before it has tiles of length 1. Its tiles run in ascending order and
    add to an output that stays in its slot, so every tiling adds in the same order. Tile lengths are multiples of
    `quantum`, or the whole: a kernel that adds up in blocks needs tiles that end where a block does.
    """

    name: str
    size: int
    kind: Literal["parallel", "reduction"] = "parallel"
    quantum: int = 1

    def __post_init__(self) -> None:
        """Refuse a name that is no identifier: generated C has a variable for each dim."""
        identifier(self.name)

    @property
    def splittable(self) -> bool:
        """Whether it may have several tiles."""
        return self.quantum < self.size

    def allows(self, length: int) -> bool:
        """Whether tiles may have that length."""
        return length == self.size or (1 <= length < self.size and length % self.quantum == 0)

    def rounded(self, length: int) -> int:
        """The shortest allowed length that is not below that one."""
        return min(-(-length // self.quantum) * self.quantum, self.size)


@dataclass(frozen=True)
class At:
    """A tile touches the same indices of the axis as of the dim."""

    dim: str

    def span(self, tile: Tile, size: int) -> tuple[int, int]:
        """First index and length on this axis for a tile."""
        return tile[self.dim]


@dataclass(frozen=True)
class Mirror(At):
    """The axis runs against the dim: a tile touches the indices as far from the axis' end as its own from the start.

    Tiles of a dim always run upwards; what a recurrence reads backwards in time is on such an axis.
    """

    def span(self, tile: Tile, size: int) -> tuple[int, int]:
        """First index and length on this axis for a tile."""
        start, length = tile[self.dim]
        return size - start - length, length


@dataclass(frozen=True)
class Window:
    """A tile touches the indices `i * stride + k * dilation - pad` of the axis, for each i in the tile, k < `kernel`.

    Indices outside the axis are padding.
    """

    dim: str
    kernel: int
    stride: int = 1
    dilation: int = 1
    pad: int = 0

    def span(self, tile: Tile, size: int) -> tuple[int, int]:
        """First index and length on this axis for a tile, clipped to the axis."""
        start, length = tile[self.dim]
        low = start * self.stride - self.pad
        high = low + (length - 1) * self.stride + (self.kernel - 1) * self.dilation + 1
        low, high = min(max(low, 0), size), min(max(high, 0), size)
        return low, max(high - low, 0)

    def offset(self, tile: Tile, size: int) -> int:
        """Index at which the tile's first window begins, relative to the box; negative if it begins in padding."""
        return tile[self.dim][0] * self.stride - self.pad - self.span(tile, size)[0]

    def longest(self, length: int) -> int:
        """Largest number of indices that a tile of that length touches on an axis without ends."""
        return (length - 1) * self.stride + (self.kernel - 1) * self.dilation + 1


@dataclass(frozen=True)
class Reach:
    """The inverse of Window: the axis counts windows, and a tile touches each window that meets the tile."""

    dim: str
    kernel: int
    stride: int = 1
    dilation: int = 1
    pad: int = 0

    def span(self, tile: Tile, size: int) -> tuple[int, int]:
        """First index and length on this axis for a tile, clipped to the axis."""
        start, length = tile[self.dim]
        low = -(-(start + self.pad - (self.kernel - 1) * self.dilation) // self.stride)
        high = (start + length - 1 + self.pad) // self.stride + 1
        low, high = min(max(low, 0), size), min(max(high, 0), size)
        return low, max(high - low, 0)

    def offset(self, tile: Tile, size: int) -> int:
        """First index of the tile along the dim, relative to the first index of the box's first window."""
        return tile[self.dim][0] + self.pad - self.span(tile, size)[0] * self.stride

    def longest(self, length: int) -> int:
        """Largest number of indices that a tile of that length touches on an axis without ends."""
        return (length - 1 + (self.kernel - 1) * self.dilation) // self.stride + 1


@dataclass(frozen=True)
class Around:
    """A tile touches all indices of the windows, out of `count`, that meet the tile: Window applied to Reach."""

    dim: str
    kernel: int
    stride: int = 1
    dilation: int = 1
    pad: int = 0
    count: int = 1

    @property
    def reach(self) -> Reach:
        """The map from a tile to the windows that meet it."""
        return Reach(self.dim, self.kernel, self.stride, self.dilation, self.pad)

    def span(self, tile: Tile, size: int) -> tuple[int, int]:
        """First index and length on this axis for a tile, clipped to the axis."""
        first, windows = self.reach.span(tile, self.count)
        window = Window(self.dim, self.kernel, self.stride, self.dilation, self.pad)
        low, length = window.span({self.dim: (first, windows)}, size)
        return low, length if windows else 0

    def offset(self, tile: Tile, size: int) -> int:
        """First index of the tile along the dim, relative to the box's first index."""
        return tile[self.dim][0] - self.span(tile, size)[0]

    def longest(self, length: int) -> int:
        """Largest number of indices that a tile of that length touches on an axis without ends."""
        return (self.reach.longest(length) - 1) * self.stride + (self.kernel - 1) * self.dilation + 1


@dataclass(frozen=True)
class Whole:
    """Every tile touches the whole axis."""

    def span(self, tile: Tile, size: int) -> tuple[int, int]:
        """First index and length on this axis for a tile."""
        return 0, size


@dataclass(frozen=True)
class Broadcast:
    """The axis has one element, which every tile touches."""

    def span(self, tile: Tile, size: int) -> tuple[int, int]:
        """First index and length on this axis for a tile."""
        return 0, 1


@dataclass(frozen=True)
class Fixed(Broadcast):
    """Every tile touches the same one index of the axis, such as that of a sample of a batch."""

    index: int = 0

    def span(self, tile: Tile, size: int) -> tuple[int, int]:
        """First index and length on this axis for a tile."""
        return self.index, 1


Windowed = Window | Reach | Around
Axis = At | Mirror | Windowed | Whole | Broadcast | Fixed
Mode = Literal["in", "out", "inout"]


@dataclass(frozen=True)
class Operand:
    """A pointer argument of a kernel: its tensor as a row-major array of shape `view`, and the map of each axis.

    `overwrite_on_first_pass` marks an inout operand whose old content is not read in a pass with the lazy-reset flag
    set. One that is used `at_home` has few elements that the kernel touches: it does so where they lie, also in the
    level of homes.
    """

    arg: str
    tensor: str
    mode: Mode
    view: tuple[int, ...]
    axes: tuple[Axis, ...]
    overwrite_on_first_pass: bool = False
    at_home: bool = field(default=False, metadata={IF_ANY: True})

    def __post_init__(self) -> None:
        """Refuse a name that is no identifier: variables of generated C are named after the argument."""
        identifier(self.arg)

    @property
    def reads(self) -> bool:
        """Whether the kernel needs the operand's old content."""
        return self.mode != "out"

    @property
    def writes(self) -> bool:
        """Whether the kernel produces the operand."""
        return self.mode != "in"

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the dims the operand's box depends on."""
        return tuple(a.dim for a in self.axes if isinstance(a, At | Windowed))

    def box(self, tile: Tile) -> tuple[tuple[int, int], ...]:
        """(first index, length) per view axis for a tile."""
        return tuple(a.span(tile, n) for a, n in zip(self.axes, self.view, strict=True))


@dataclass(frozen=True)
class Access:
    """The iteration space, outermost dim first, and the operands in kernel argument order."""

    dims: tuple[Dim, ...]
    operands: tuple[Operand, ...]

    def dim(self, name: str) -> Dim:
        """The dim of that name."""
        return next(d for d in self.dims if d.name == name)

    def operand(self, arg: str) -> Operand:
        """The operand behind that kernel argument."""
        return next(o for o in self.operands if o.arg == arg)

    @property
    def sizes(self) -> dict[str, int]:
        """Extent of every dim: the tile that is the whole step."""
        return {d.name: d.size for d in self.dims}


def tile_count(access: Access, sizes: Mapping[str, int]) -> int:
    """Number of tiles if each dim is cut into pieces of its length in `sizes`."""
    return math.prod(-(-d.size // sizes[d.name]) for d in access.dims)


def tiles(
    access: Access, sizes: Mapping[str, int], order: tuple[str, ...], within: Tile | None = None
) -> Iterator[dict[str, Span]]:
    """All tiles of the space, or of its part `within`, in loop order; `order` names the dims, the outermost first.

    The last tile along a dim may be shorter.
    """
    pieces = []
    for name in order:
        first, length = within[name] if within else (0, access.dim(name).size)
        pieces.append([(first + s, min(sizes[name], length - s)) for s in range(0, length, sizes[name])])
    for spans in itertools.product(*pieces):
        yield dict(zip(order, spans, strict=True))


def box_shape(operand: Operand, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Largest length of the operand's box on each view axis, over all tiles of these lengths.

    Windows are clipped to their axis, so the largest is that of an inner tile or the axis itself.
    """
    shape = []
    for axis, extent in zip(operand.axes, operand.view, strict=True):
        if isinstance(axis, Windowed):
            shape.append(min(axis.longest(sizes[axis.dim]), extent))
        elif isinstance(axis, At):
            shape.append(min(sizes[axis.dim], extent))
        else:
            shape.append(axis.span({}, extent)[1])
    return tuple(shape)


@dataclass(frozen=True)
class BoxTransfer:
    """A box as a DMA engine moves it: runs of `run` contiguous elements, repeated over `levels`.

    A level is (count, stride in elements); the outermost comes first.
    """

    run: int
    levels: tuple[tuple[int, int], ...]

    @property
    def elements(self) -> int:
        """Elements moved."""
        return self.run * math.prod(n for n, _ in self.levels)

    @property
    def lines(self) -> int:
        """Contiguous runs moved."""
        return math.prod(n for n, _ in self.levels)


def nested(size: int, outer: int, tile: int) -> tuple[tuple[Span, tuple[Span, ...]], ...]:
    """The parts of length `outer` of a dim, each with its tiles of length `tile`, all as (start, length)."""
    outer_spans = [(s, min(outer, size - s)) for s in range(0, size, outer)]
    return tuple((p, tuple((p[0] + t, min(tile, p[1] - t)) for t in range(0, p[1], tile))) for p in outer_spans)


def full_axes(
    axes: tuple[Axis, ...], view: tuple[int, ...], cuts: Mapping[str, tuple[int, int, int]], staged: bool
) -> tuple[bool, ...]:
    """For each axis, whether every tile covers all of it: of the view's axis or, if `staged`, of the part's box.

    `cuts` maps a dim to its size and the lengths of its parts and tiles. The same code moves all tiles, so a contiguous
    run continues across such axes only.
    """
    full = []
    for axis, extent in zip(axes, view, strict=True):
        if isinstance(axis, At | Windowed):
            equal = True
            for outer_span, pieces in nested(*cuts[axis.dim]):
                of = axis.span({axis.dim: outer_span}, extent)[1] if staged else extent
                equal = equal and all(axis.span({axis.dim: p}, extent)[1] == of for p in pieces)
            full.append(equal)
        else:
            full.append(axis.span({}, extent)[1] == extent)
    return tuple(full)


def transfer(view: tuple[int, ...], box: tuple[int, ...], full: tuple[bool, ...] | None = None) -> BoxTransfer:
    """Runs and strides of a box of that shape inside a row-major array of shape `view`.

    A run continues across an axis that is `full`: by default one on which the box is as long as the view. A box with an
    axis of length 0 has no runs.
    """
    levels: list[tuple[int, int]] = []
    run, stride, contiguous = 1, 1, True
    if full is None:
        full = tuple(a == b for a, b in zip(view, box, strict=True))
    if 0 in box:
        return BoxTransfer(0, ())
    for extent, length, is_full in zip(reversed(view), reversed(box), reversed(full), strict=True):
        if contiguous:
            run *= length
        elif length > 1:
            if levels and levels[-1][1] * levels[-1][0] == stride:
                levels[-1] = (levels[-1][0] * length, levels[-1][1])
            else:
                levels.append((length, stride))
        contiguous = contiguous and (is_full or extent == 1)
        stride *= extent
    return BoxTransfer(run, tuple(reversed(levels)))


def strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def order_dims(access: Access, outer: tuple[str, ...] = ()) -> tuple[str, ...]:
    """A loop order: the dims named in `outer` first, then the other parallel dims, reductions innermost."""
    parallel = [d.name for d in access.dims if d.kind == "parallel" and d.name not in outer]
    reduction = [d.name for d in access.dims if d.kind == "reduction"]
    return (*outer, *parallel, *reduction)


def loads(operand: Operand, access: Access, sizes: Mapping[str, int], order: tuple[str, ...]) -> int:
    """Return the number of boxes of the operand that the tile loop loads, including the first.

    A box stays in its slot while only loops inside the innermost dim that it depends on advance.
    """
    counts = [-(-access.dim(name).size // sizes[name]) for name in order]
    depends = [i for i, name in enumerate(order) if name in operand.dims and counts[i] > 1]
    return math.prod(counts[: depends[-1] + 1]) if depends else 1
