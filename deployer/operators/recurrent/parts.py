"""What the nodes of a recurrent layer are made with: its sizes, values in between, and masks of steps."""

from dataclasses import dataclass

from deployer.operators.construction import Construction


@dataclass(frozen=True)
class Sizes:
    """Steps, sequences, features of X, units, and directions."""

    time: int
    batch: int
    features: int
    units: int
    directions: int


@dataclass(frozen=True)
class Masks:
    """Lengths of sequences, and truths by them: which steps [time, batch, 1] are within, and which are the last one."""

    lengths: str
    column: str
    within: str
    last: str


@dataclass
class Parts(Construction):
    """The nodes of a layer; `masks` are there with lengths."""

    sizes: Sizes
    masks: Masks | None = None

    def part(self, name: str, axis: int, begin: int, end: int) -> str:
        """Elements from begin to end along an axis."""
        return self.emit("Slice", (name,), starts=(begin,), ends=(end,), axes=(axis,), steps=(1,))

    def gates(self, name: str, count: int, axis: int = 1) -> list[str]:
        """Equal parts along an axis, one for each gate."""
        parts = [f"{name}/{i}" for i in range(count)]
        self.several("Split", (name,), parts, axis=axis, split=(self.sizes.units,) * count)
        return parts

    def steps(self, first: int, count: int) -> str:
        """A constant: the integers from `first` on, as [time, 1, 1]."""
        plain = self.emit("Constant", (), value_ints=tuple(range(first, first + count)))
        return self.emit("Reshape", (plain,), shape=(count, 1, 1))

    def having(self, masks: Masks, step: int) -> str:
        """Append which sequences [batch, 1] have the step of that number."""
        number = self.emit("Constant", (), value_int=step)
        return self.emit("SequenceMask", (number, masks.column), steps=self.sizes.time)

    def masked(self, mask: str, name: str) -> str:
        """A value where a mask is true, else zeros."""
        return self.emit("Where", (mask, name, self.number(0.0)))


def add_masks(parts: Parts, lengths: str) -> None:
    """Append the masks of a layer."""
    sizes = parts.sizes
    column = parts.emit("Reshape", (lengths,), shape=(sizes.batch, 1))
    within = parts.emit("SequenceMask", (parts.steps(0, sizes.time), column))
    last = parts.emit("And", (within, parts.emit("Equal", (parts.steps(1, sizes.time), column))))
    parts.masks = Masks(lengths, column, within, last)
