"""The value of a kernel argument for one tile: what generated code computes, computed in Python."""

from collections.abc import Mapping

from deployer.core.access import Access, Broadcast, Tile, Windowed, strides
from deployer.core.errors import InternalError
from deployer.core.operator import ArgValue, Const, Extent, First, Flag, Last, Length, Offset, Start, Stride


def value_of(
    value: ArgValue, access: Access, tile: Tile, flag: int, buffers: Mapping[str, tuple[int, ...]] | None = None
) -> int | float:
    """The argument's value; `buffers` gives the shape of operands' memory where it is not the packed box."""
    match value:
        case Const(number):
            return number
        case Extent(dim):
            return tile[dim][1]
        case Start(dim):
            return tile[dim][0]
        case First():
            return int(all(tile[d.name][0] == 0 for d in access.dims if d.kind == "reduction"))
        case Last():
            return int(all(sum(tile[d.name]) == d.size for d in access.dims if d.kind == "reduction"))
        case Flag():
            return flag
        case Stride(arg, axis):
            operand = access.operand(arg)
            shape = tuple(length for _, length in operand.box(tile))
            shape = (buffers or {}).get(arg, shape)
            return 0 if isinstance(operand.axes[axis], Broadcast) else strides(shape)[axis]
        case Length(arg, axis):
            return access.operand(arg).box(tile)[axis][1]
        case Offset(arg, axis):
            operand = access.operand(arg)
            mapped = operand.axes[axis]
            if isinstance(mapped, Windowed):
                return mapped.offset(tile, operand.view[axis])
    raise InternalError(f"{value} has no value")
