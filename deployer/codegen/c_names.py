"""Names and addresses in generated C: of homes, slots and levels."""

from collections import Counter

from deployer.core.level import L_INNER
from deployer.core.plan import Plan
from deployer.core.safe_text import CText, c_suffix, code, identifier
from deployer.core.target import Target

POINTER_BYTES = 8
"""Bytes of a pointer, at most, of machines that simulate."""
SLOTS = ("SLOT", "STAGE")
"""Prefixes of the names of slots, by the number of their level."""


class Names:
    """C names of homes and slots; two homes whose names reduce to the same identifier get different ones.

    `prefix` comes before the names of homes; `used` are the storages whose names were asked for.
    """

    def __init__(self, plan: Plan, prefix: str = "") -> None:
        self.homes: dict[str, CText] = {}
        self.used: set[str] = set()
        names: set[str] = set()
        count: Counter[str] = Counter()
        for home in plan.homes:
            name = base = f"{prefix}HOME_{c_suffix(home.storage)}"
            while name in names:
                count[base] += 1
                name = f"{base}_{1 + count[base]}"
            names.add(name)
            self.homes[home.storage] = code(name)

    def home(self, storage: str) -> CText:
        """Name of a home's address, which is `used` from now on."""
        self.used.add(storage)
        return self.homes[storage]

    def slot(self, step: int, arg: str, level: int) -> CText:
        """Name of the address of an operand's first slot in a level."""
        return identifier(f"{SLOTS[level]}_{step:02d}_{arg.upper()}")


class MemoryNames:
    """Addresses as the target sees them: plan offsets, spread by guard bytes where the target's memories are simulated.

    A buffer moves up by one guard for each distinct start below it, so two live buffers never touch. Tables that groups
    of steps fetch are `table_bytes` there, with pointers as long as those of the machine that simulates.
    """

    def __init__(self, plan: Plan, target: Target) -> None:
        self.guard = target.guard_bytes
        longer = POINTER_BYTES // target.pointer_bytes if self.guard and plan.groups else 1
        self.innermost, self.table_bytes = plan.levels[L_INNER].name, longer * plan.table_bytes
        self.more = self.table_bytes - plan.table_bytes
        self.table_area = (self.guard, self.guard + self.table_bytes) if plan.groups else (0, plan.table_bytes)
        self.starts: dict[str, list[int]] = {level.name: [] for level in plan.levels}
        self.starts[self.innermost] += [0] * bool(plan.groups)
        for home in plan.homes:
            self.starts[home.level].append(home.offset)
        for step in plan.steps:
            for o in step.operands:
                for level, slots in zip(plan.levels, o.places, strict=False):
                    self.starts[level.name] += [slots.offset] * bool(slots.count)
        self.starts = {level: sorted(set(offsets)) for level, offsets in self.starts.items()}
        self.sizes = {x.name: x.peak + self.guard * (len(self.starts[x.name]) + 1) for x in plan.levels}
        self.sizes[self.innermost] += self.more

    def address(self, level: str, offset: int) -> int:
        """Offset of a buffer in the target's array for the level."""
        if not self.guard:
            return offset
        more = self.more if level == self.innermost and offset else 0
        return offset + more + self.guard * (self.starts[level].index(offset) + 1)


def memory_name(level: str) -> CText:
    """The name of a level's C array."""
    return identifier(f"hal_memory_{level.lower()}")


def base_name(level: str) -> CText:
    """The name of the macro that makes an address in a level of bytes from its begin."""
    return identifier(f"AT_{level.upper()}")
